import EventLoop
import FeedVocabulary
import HTTPTransport

/// The credentials of all origins; each provider is asked once for all who wait. Touched on the loop only.
final class CredentialVault {
    /// Which credential a request was sent with.
    struct Ticket {
        fileprivate let account: Account
        fileprivate let generation: Int
    }
    final class Account {
        fileprivate let provider: any CredentialProvider
        fileprivate let origin: WebOrigin
        fileprivate let identity: String?
        /// Where its credential may go.
        let origins: Set<WebOrigin>
        fileprivate var current: Credential?
        fileprivate var generation = 0
        fileprivate let asking: SharedWork<Result<Credential?, LoadError>>

        init(
            _ provider: any CredentialProvider, _ origin: WebOrigin, further: Set<WebOrigin>, identity: String?,
            on loop: any LoopExecutor
        ) {
            asking = SharedWork(on: loop)
            (self.provider, self.origin, self.identity) = (provider, origin, identity)
            origins = further.union([origin])
        }
    }
    /// A credential that expires within this time is replaced before it is used.
    private static let renewAhead = Duration.seconds(60)
    private let loop: any LoopExecutor
    private var accounts: [WebOrigin: Account] = [:]

    init(loop: any LoopExecutor) { self.loop = loop }

    func set(
        _ provider: (any CredentialProvider)?, for origin: WebOrigin, further: Set<WebOrigin>, identity: String?
    ) {
        for (listed, account) in accounts where account.origin == origin { accounts[listed] = nil }
        guard let provider else { return }
        let account = Account(provider, origin, further: further, identity: identity, on: loop)
        for origin in account.origins { accounts[origin] = account }
    }

    /// Whose account serves a URL.
    func identity(for url: String) -> String? {
        guard !accounts.isEmpty, let origin = try? WebOrigin(url: url) else { return nil }
        return accounts[origin]?.identity
    }

    /// Adds the credential of the origin that a request goes to.
    ///
    /// - Returns: `nil` when the origin has no account, or its provider has nothing.
    func authorize(_ request: inout HTTPRequest, to origin: WebOrigin) async throws -> Ticket? {
        guard let account = accounts[origin] else { return nil }
        if account.current == nil, account.generation == 0 {
            _ = try await ask(account, .first)
        } else if let expires = account.current?.expires,
            expires <= loop.wallTime.advanced(by: Self.renewAhead)
        {
            // Without a better one the old one is tried: it may hold for the minute that is left.
            _ = try await ask(account, .expiring)
        }
        request.credential = account.current?.sent(to: account.origins)
        return Ticket(account: account, generation: account.generation)
    }

    /// The server refused the credential of `ticket`.
    ///
    /// - Returns: Whether there is another one to try with.
    func renew(_ ticket: Ticket, status: Int, asksFor: String?) async throws -> Bool {
        let account = ticket.account
        if account.generation != ticket.generation, !account.asking.isRunning { return account.current != nil }
        return try await ask(account, .refused(status: status, asksFor: asksFor))
    }

    private func ask(_ account: Account, _ reason: CredentialRequest.Reason) async throws -> Bool {
        let last = account.current
        let request = CredentialRequest(origin: account.origin, reason: reason, last: last)
        let (answer, isFirst) = await account.asking.value { [provider = account.provider] in
            do {
                let credential = try await provider.credential(for: request)
                try credential?.validate()
                return .success(credential)
            } catch let error as TransportError {
                return .failure(.host(reason: "\(error)"))
            } catch {
                // The text is the host's own, and may hold what it should not.
                return .failure(.host(reason: "the credential provider for \(request.origin) failed"))
            }
        }
        if isFirst {
            if case .success(let credential) = answer, let credential, credential != account.current {
                account.current = credential
                account.generation += 1
            } else if account.generation == 0 {
                account.generation = 1
            }
        }
        switch answer {
        case .failure(let error): throw error
        case .success: return account.current != nil && account.current != last
        }
    }
}
