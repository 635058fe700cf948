import EventLoop
import FeedVocabulary
import HTTPTransport
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

/// Gives numbered tokens, and counts how often it was asked.
private final class Tokens: CredentialProvider {
    private let asked = Lock<[CredentialRequest]>([])
    private let last: Int
    private let lifetime: Duration?
    private let loop: any LoopExecutor
    init(on loop: any LoopExecutor, last: Int = .max, lifetime: Duration? = nil) {
        (self.loop, self.last, self.lifetime) = (loop, last, lifetime)
    }
    var requests: [CredentialRequest] { asked.withLock { $0 } }
    func credential(for request: CredentialRequest) async throws -> Credential? {
        let number = asked.withLock { asked in
            asked.append(request)
            return asked.count
        }
        try await loop.sleep(for: .milliseconds(30))
        guard number <= last else { return nil }
        return .bearer("t\(number)", expires: lifetime.map { loop.wallTime.advanced(by: $0) })
    }
}

@Suite("Credentials") struct AuthFaultTests {
    static let content = Pattern.bytes(200_000)

    @Test("AUTH-1, AUTH-2: headers stay with their origin: another port, another host, another scheme")
    func otherOrigins() async throws {
        let content = Self.content
        let target = try RawResponder { [.file(content, $0)] }
        let port = target.port
        let server = try RawResponder { request in
            let place = request.target == "/host" ? "http://localhost:\(port)/b" : "http://127.0.0.1:\(port)/b"
            return [.whole("302 Found", ["Location: \(place)"])]
        }
        try await LoaderWorld.run { world in
            let headers = HTTPHeaders([
                ("Authorization", "Bearer secret"), ("Cookie", "secret=1"), ("X-Api-Key", "secret"),
                ("Referer", "secret"),
                ("Accept-Language", "de"),
            ])
            for name in ["port", "host"] {
                let resource = Resource(
                    key: key(name), urls: [MediaURL(server.baseURL + "/" + name)], headers: headers)
                let got1 = try await world.read(resource)
                #expect(got1 == Bytes(content))
            }
            for request in target.requests {
                #expect(!request.headers.values.contains { $0.contains("secret") })
                #expect(request.headers["accept-language"] == "de")
            }
            #expect(server.requests.allSatisfy { $0.headers["x-api-key"] == "secret" })
        }
        target.stop()
        server.stop()
    }

    @Test("an origin that is listed gets the headers, and a backup on another host does not") func listedOrigins()
        async throws
    {
        let content = Self.content
        let target = try RawResponder { [.file(content, $0)] }
        let place = target.baseURL
        let server = try RawResponder { request in
            request.target == "/gone" ? [.whole("404 Not Found")] : [.whole("307 Moved", ["Location: \(place)/b"])]
        }
        try await LoaderWorld.run { world in
            var listed = Resource(
                key: key("a"), urls: [MediaURL(server.baseURL + "/a")], headers: ["X-Api-Key": "k"])
            listed.furtherOrigins = [try WebOrigin(url: place)]
            let got2 = try await world.read(listed)
            #expect(got2 == Bytes(content))
            #expect(target.requests.allSatisfy { $0.headers["x-api-key"] == "k" })
            let asked = target.requests.count
            let backup = Resource(
                key: key("b"), urls: [MediaURL(server.baseURL + "/gone"), MediaURL(place + "/backup")],
                headers: ["X-Api-Key": "k"])
            let got3 = try await world.read(backup)
            #expect(got3 == Bytes(content))
            #expect(target.requests.dropFirst(asked).allSatisfy { $0.headers["x-api-key"] == nil })
        }
        target.stop()
        server.stop()
    }

    @Test("AUTH-3: a redirect inside one origin keeps the headers") func sameOrigin() async throws {
        let content = Self.content
        let server = try RawResponder { request in
            switch request.target {
            case "/absolute": [.whole("302 Found", ["Location: http://\(request.headers["host"] ?? "")/file"])]
            case "/relative": [.whole("301 Moved", ["Location: file"])]
            case _: request.headers["authorization"] == "Bearer t" ? [.file(content, request)] : [.whole("401 No")]
            }
        }
        try await LoaderWorld.run { world in
            for name in ["absolute", "relative"] {
                let resource = Resource(
                    key: key(name), urls: [MediaURL(server.baseURL + "/" + name)],
                    headers: ["Authorization": "Bearer t"])
                let got4 = try await world.read(resource)
                #expect(got4 == Bytes(content))
            }
        }
        server.stop()
    }

    @Test("AUTH-4: a pre-signed target gets no token, is used for further ranges, and is renewed when it expires")
    func preSignedTarget() async throws {
        let content = Pattern.bytes(900_000)
        let valid = Lock(1)
        let target = try RawResponder { request in
            guard request.headers["authorization"] == nil, request.target == "/signed\(valid.withLock { $0 })" else {
                return [.whole("403 Forbidden")]
            }
            return [.file(content, request)]
        }
        let place = target.baseURL
        let server = try RawResponder { request in
            request.headers["authorization"] == "Bearer t"
                ? [.whole("302 Found", ["Location: \(place)/signed\(valid.withLock { $0 })"])] : [.whole("401 No")]
        }
        try await LoaderWorld.run { world in
            await world.loaders.setCredentials(Credential.bearer("t"), for: try WebOrigin(url: server.baseURL))
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            for place in stride(from: 0, to: 500_000, by: 100_000) {
                await reader.want([Int64(place)..<Int64(place) + 1_000])
                try await reader.wait(for: Int64(place)..<Int64(place) + 1_000)
            }
            #expect(server.requests.count == 1)
            #expect(target.requests.count == 5)
            valid.withLock { $0 = 2 }
            await reader.want([800_000..<801_000])
            try await reader.wait(for: 800_000..<801_000)
            #expect(server.requests.count == 2)
            await reader.close()
            let got5 = try await world.read(resource)
            #expect(got5 == Bytes(content))
        }
        target.stop()
        server.stop()
    }

    @Test("AUTH-5: one refresh for all who wait, the same range again, and no error") func refresh() async throws {
        let content = Pattern.bytes(300_000)
        let server = try RawResponder { request in
            request.headers["authorization"] == (request.number < 5 ? "Bearer t1" : "Bearer t2")
                ? [.file(content, request)]
                : [.whole("401 No", ["WWW-Authenticate: Bearer realm=\"d\", error=\"invalid_token\""])]
        }
        try await LoaderWorld.run { world in
            let tokens = Tokens(on: world.loop)
            await world.loaders.setCredentials(tokens, for: try WebOrigin(url: server.baseURL))
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<8 {
                    let resource = Resource(key: key("a\(number)"), urls: [server.baseURL + "/\(number)"])
                    group.addTask { try await world.read(resource) == content }
                }
                for try await isRight in group { #expect(isRight) }
            }
            #expect(tokens.requests.map(\.reason) == [.first, .refused(status: 401, asksFor: "Bearer for \"d\"")])
        }
        server.stop()
    }

    @Test("AUTH-5: a second refusal is final and says what the server asks for") func refusedTwice() async throws {
        let server = try RawResponder { _ in [.whole("401 No", ["WWW-Authenticate: Basic realm=\"music\""])] }
        try await LoaderWorld.run { world in
            let tokens = Tokens(on: world.loop)
            await world.loaders.setCredentials(tokens, for: try WebOrigin(url: server.baseURL))
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(
                throws: LoadError.unauthorized(
                    status: 401, url: server.baseURL + "/a", asksFor: "Basic for \"music\"")
            ) { try await world.read(resource) }
            #expect(tokens.requests.count == 2)
            #expect(server.requests.count == 2)
        }
        server.stop()
    }

    @Test("a credential is replaced before its known expiry") func expiring() async throws {
        let content = Self.content
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            let tokens = Tokens(on: world.loop, lifetime: .seconds(30))
            await world.loaders.setCredentials(tokens, for: try WebOrigin(url: server.baseURL))
            for name in ["a", "b"] {
                let resource = Resource(key: key(name), urls: [server.baseURL + "/" + name])
                let got6 = try await world.read(resource, 0..<1_000, readAhead: 0)
                #expect(got6 == Bytes(Array(content[..<1_000])))
            }
            #expect(tokens.requests.map(\.reason).prefix(2) == [.first, .expiring])
            #expect(server.requests.map { $0.headers["authorization"] }.prefix(2) == ["Bearer t1", "Bearer t2"])
        }
        server.stop()
    }

    @Test(
        "AUTH-7: a header that would break the request apart is refused before any connection",
        arguments: [
            ("X-A", "x\r\nEvil: 1"), ("X A", "1"), ("X:A", "1"), ("X-Ä", "1"), ("X-A", "a\0b"), ("", "1"),
        ]) func injection(name: String, value: String) async throws
    {
        let server = try RawResponder { _ in [.whole("200 OK")] }
        try await LoaderWorld.run { world in
            let resource = Resource(
                key: key("a"), urls: [MediaURL(server.baseURL + "/a")], headers: HTTPHeaders([(name, value)]))
            await #expect(throws: LoadError.self) { try await world.read(resource) }
            #expect(throws: TransportError.self) { try Credential.headers([name: value]).validate() }
            await world.loaders.setCredentials(
                Credential.headers([name: value]), for: try WebOrigin(url: server.baseURL))
            let plain = Resource(key: key("b"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.self) { try await world.read(plain) }
            #expect(server.requests.isEmpty)
        }
        server.stop()
    }

    @Test("AUTH-8: no secret in an error, an event, a description or a file name") func noSecrets() async throws {
        let server = try RawResponder { request in
            switch request.number % 4 {
            case 0: [.whole("401 No", ["WWW-Authenticate: Basic realm=\"r\""])]
            case 1: [.whole("403 No")]
            case 2: [.whole("302 Found", ["Location: ftp://user:s3cret@h/x?sig=s3cret"])]
            case _: [.whole("206 Partial Content", ["Content-Range: bytes s3cret"])]
            }
        }
        try await LoaderWorld.run { world in
            let (stream, origin) = (await world.loaders.events(), try WebOrigin(url: server.baseURL))
            let listener = Task {
                var text = ""
                for await event in stream { text += "\(event) \(String(reflecting: event))" }
                return text
            }
            var texts = ""
            let credentials: [Credential] = [
                .basic(user: "u", password: "s3cret"), .oauth("s3cret"), .bearer("s3cret"),
                .login(user: "u", password: "s3cret"), .headers(["X-Api-Key": "s3cret"]),
            ]
            for (number, credential) in credentials.enumerated() {
                texts += "\(credential) \(String(reflecting: credential))"
                dump(credential, to: &texts)
                await world.loaders.setCredentials(credential, for: origin)
                for part in 0..<3 {
                    let url = "http://user:s3cret@127.0.0.1:\(server.port)/a\(number)?sig=s3cret&X-Amz-Signature=s3cret"
                    let resource = Resource(
                        key: key("a\(number)b\(part)"), urls: [MediaURL(url)], headers: ["X-Secret": "s3cret"])
                    do { _ = try await world.read(resource) } catch { texts += "\(error) \(String(reflecting: error))" }
                }
            }
            await world.loaders.shutdown()
            texts += await listener.value
            #expect(!texts.contains("s3cret"))
            #expect(!texts.contains(Base64.encode("u:s3cret".utf8)))
        }
        server.stop()
    }

    @Test("AUTH-9: redirects lead to http and https only, and end") func redirects() async throws {
        let server = try RawResponder { request in
            switch request.target {
            case "/file": [.whole("302 Found", ["Location: file:///etc/passwd"])]
            case "/ftp": [.whole("302 Found", ["Location: ftp://h/x"])]
            case "/a": [.whole("302 Found", ["Location: /b"])]
            case "/b": [.whole("302 Found", ["Location: /a"])]
            case _: [.whole("302 Found", ["Location: /\(request.number)"])]
            }
        }
        try await LoaderWorld.run { world in
            var texts: Set<String> = []
            for name in ["file", "ftp", "a", "long"] {
                do {
                    _ = try await world.read(Resource(key: key(name), urls: [server.baseURL + "/" + name]))
                } catch {
                    texts.insert("\(error)")
                }
            }
            #expect(texts.count == 3)
            #expect(server.requests.count < 20)
        }
        server.stop()
    }

    @Test("AUTH-10: what one account fetched is not served to another, and is cleared alone") func identities()
        async throws
    {
        let server = try RawResponder { request in
            [.file(Pattern.bytes(5_000, version: request.headers["authorization"] == "Bearer a" ? 1 : 2), request)]
        }
        try await LoaderWorld.run { world in
            let origin = try WebOrigin(url: server.baseURL)
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            for (name, version) in [("a", 1), ("b", 2)] {
                await world.loaders.setCredentials(Credential.bearer(name), for: origin, identity: name)
                let bytes = try await world.read(resource)
                #expect(bytes == Bytes(Pattern.bytes(5_000, version: version)))
            }
            server.stop()
            let got9 = try await world.read(resource)
            #expect(got9 == Bytes(Pattern.bytes(5_000, version: 2)))
            await world.cache.removeAll(identity: "b")
            let left = await world.cache.records.map(\.identity)
            #expect(left == ["a"])
            await world.loaders.setCredentials(Credential.bearer("a"), for: origin, identity: "a")
            let got10 = try await world.read(resource)
            #expect(got10 == Bytes(Pattern.bytes(5_000, version: 1)))
        }
    }
}

/// Headers of a resource and the credential of an account have origins of their own.
@Suite("Whose origin") struct OriginTests {
    @Test("AUTH-1, AUTH-2: neither headers nor credential follow where only the other may go") func apart() async throws
    {
        let content = Pattern.bytes(5_000)
        let other = try RawResponder { [.file(content, $0)] }
        let place = other.baseURL
        let server = try RawResponder { request in
            request.target == "/gone" ? [.whole("404 No")] : [.whole("302 Found", ["Location: \(place)/b"])]
        }
        try await LoaderWorld.run { world in
            let home = try WebOrigin(url: server.baseURL)
            await world.loaders.setCredentials(Credential.bearer("t"), for: home)
            var listed = Resource(key: key("a"), urls: [MediaURL(server.baseURL + "/a")], headers: ["X-Key": "k"])
            listed.furtherOrigins = [try WebOrigin(url: place)]
            let first = try await world.read(listed)
            #expect(first == content)
            #expect(server.requests[0].headers["authorization"] == "Bearer t")
            #expect(other.requests[0].headers["authorization"] == nil)
            #expect(other.requests[0].headers["x-key"] == "k")

            await world.loaders.setCredentials(Credential.bearer("o"), for: try WebOrigin(url: place))
            let backup = Resource(
                key: key("b"), urls: [MediaURL(server.baseURL + "/gone"), MediaURL(place + "/b")],
                headers: ["X-Key": "k"])
            let second = try await world.read(backup)
            #expect(second == content)
            #expect(other.requests.last?.headers["authorization"] == "Bearer o")
            #expect(other.requests.last?.headers["x-key"] == nil)
        }
        other.stop()
        server.stop()
    }

    @Test("AUTH-10: an account that is changed under an open reader ends it") func changedAccount() async throws {
        let server = try RawResponder { request in
            [
                .file(
                    Pattern.bytes(500_000, version: request.headers["authorization"] == "Bearer a" ? 1 : 2), request,
                    tag: nil)
            ]
        }
        try await LoaderWorld.run { world in
            let origin = try WebOrigin(url: server.baseURL)
            await world.loaders.setCredentials(Credential.bearer("a"), for: origin, identity: "a")
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            _ = try await reader.read(at: 0, count: 10)
            await world.loaders.setCredentials(Credential.bearer("b"), for: origin, identity: "b")
            await #expect(throws: LoadError.self) { try await reader.read(at: 400_000, count: 10) }
            await reader.close()
            let bytes = try await world.read(resource)
            #expect(bytes == Pattern.bytes(500_000, version: 2))
        }
        server.stop()
    }
}
