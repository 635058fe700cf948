public import EventLoop
public import FeedVocabulary
package import HTTPTransport

/// What proves to a server who asks. It is never printed.
public struct Credential: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    enum Proof: Hashable, Sendable {
        case fields([String: String])
        case login(HTTPLogin)
    }
    let proof: Proof
    /// When it stops being valid; a new one is asked for shortly before.
    public let expires: WallTime?

    private init(_ proof: Proof, expires: WallTime? = nil) { (self.proof, self.expires) = (proof, expires) }

    /// Basic (RFC 7617), sent with the first request already. Only over https, or to a machine of one's own: anybody on
    /// the way can read it.
    public static func basic(user: String, password: String) -> Credential {
        Credential(.fields(["Authorization": "Basic " + Base64.encode("\(user):\(password)".utf8)]))
    }
    /// Digest (RFC 7616): the password never crosses the network. The first request of a connection costs a round trip.
    public static func digest(user: String, password: String) -> Credential {
        Credential(.login(HTTPLogin(user: user, password: password, scheme: .digest)))
    }
    /// Digest where the server offers it, else Basic; nothing is sent before the server asks.
    public static func login(user: String, password: String) -> Credential {
        Credential(.login(HTTPLogin(user: user, password: password, scheme: .asAsked)))
    }
    /// `Authorization: Bearer` (RFC 6750): Dropbox, Google Drive, OneDrive.
    public static func bearer(_ token: String, expires: WallTime? = nil) -> Credential {
        Credential(.fields(["Authorization": "Bearer \(token)"]), expires: expires)
    }
    /// `Authorization: OAuth`, as Yandex writes it.
    public static func oauth(_ token: String, expires: WallTime? = nil) -> Credential {
        Credential(.fields(["Authorization": "OAuth \(token)"]), expires: expires)
    }
    /// Header fields of another kind, such as `X-Api-Key` or `Cookie`.
    public static func headers(_ fields: [String: String], expires: WallTime? = nil) -> Credential {
        Credential(.fields(fields), expires: expires)
    }

    /// Says nothing of the secret.
    public var description: String {
        switch proof {
        case .fields(let fields): "credential (\(fields.keys.sorted().joined(separator: ", ")))"
        case .login: "credential (user and password)"
        }
    }
    /// Has no children, so that `dump` and debuggers' texts don't show the secret.
    public var customMirror: Mirror { Mirror(self, children: [:]) }

    /// As it is sent to `origins`.
    func sent(to origins: Set<WebOrigin>) -> HTTPCredential {
        var sent = HTTPCredential(origins: origins)
        switch proof {
        case .fields(let fields):
            sent.fields = HTTPHeaders(fields)
        case .login(let login): sent.login = login
        }
        return sent
    }

    /// Refuses what can't be sent, before anything is.
    package func validate() throws(TransportError) {
        switch proof {
        case .fields(let fields): try HTTPHeaders(fields).validate()
        case .login(let login):
            // The colon ends the user's name on the wire (RFC 7617 §2).
            guard !login.user.contains(":"),
                !(login.user + login.password).unicodeScalars.contains(where: { $0.value < 0x20 })
            else {
                throw .invalidHeader(
                    name: "Authorization", reason: "a user name has no colon, and neither part control characters")
            }
        }
    }
}

/// Gives credentials for one origin, now and when the old one is refused.
public protocol CredentialProvider: Sendable {
    /// Asked once for all requests that wait, on the loop; do lengthy work by `await`.
    ///
    /// - Returns: `nil` when there is none, or no better one than the one that was refused.
    func credential(for request: CredentialRequest) async throws -> Credential?
}

/// Why a credential is wanted.
public struct CredentialRequest: Hashable, Sendable {
    /// What makes a credential needed.
    public enum Reason: Hashable, Sendable {
        /// The first request to the origin.
        case first
        /// The server refused the last one with this status, 401 or 403, and asks for this.
        case refused(status: Int, asksFor: String?)
        /// The last one expires within a minute.
        case expiring
    }
    /// The server that wants it.
    public let origin: WebOrigin
    /// What happened.
    public let reason: Reason
    /// The one given last time.
    public let last: Credential?
}

extension Credential: CredentialProvider {
    /// Itself, and nothing else when it is refused.
    public func credential(for request: CredentialRequest) async -> Credential? {
        request.last == nil ? self : nil
    }
}

/// Base64 of RFC 4648 §4, which neither Swift nor this floor's imports have.
enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func encode(_ text: some Sequence<UInt8>) -> String {
        let bytes = Array(text)
        var out: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let word = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32((3 - group.count) * 8)
            for digit in 0..<4 {
                out.append(digit <= group.count ? digits[Int(word >> UInt32(18 - 6 * digit)) & 63] : UInt8(ascii: "="))
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
