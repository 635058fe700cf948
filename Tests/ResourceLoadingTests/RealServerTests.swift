import EventLoop
import FeedVocabulary
import HTTPTransport
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

/// What every server has to give, whatever its habits.
@Suite("Real servers") struct RealServerTests {
    private func run(
        _ kind: RealServer.Kind, _ body: (RealServer, LoaderWorld) async throws -> Void
    ) async throws {
        let server = try RealServer(kind)
        defer { server.stop() }
        var http = HTTPClientConfiguration()
        http.certificateAuthorityFile = server.authority
        try await LoaderWorld.run(http: http) { try await body(server, $0) }
    }
    private func login(_ kind: RealServer.Kind, _ password: String = RealServer.password) -> Credential {
        switch kind {
        case .nginx, .rclone: .basic(user: RealServer.user, password: password)
        case .apacheDigest: .digest(user: RealServer.user, password: password)
        case .nginxTLS, .apacheBasic: .login(user: RealServer.user, password: password)
        }
    }
    static let installed = RealServer.Kind.allCases.filter(\.isInstalled)

    @Test("files, ranges, ends, odd names and the second time without the server", arguments: installed)
    func contract(kind: RealServer.Kind) async throws {
        try await run(kind) { server, world in
            let content = Pattern.bytes(1_500_000)
            try server.write(content, to: "music/a b/é&+#.mp3")
            try server.write(Pattern.bytes(1), to: "one.mp4")
            try server.write([], to: "empty.mp4")
            await world.loaders.setCredentials(login(kind), for: try WebOrigin(url: server.baseURL))
            let url = server.baseURL + "/music/a%20b/%C3%A9%26%2B%23.mp3"
            let resource = Resource(key: CacheKey(url: url), urls: [url])

            let middle = try await world.read(resource, 700_000..<700_100, readAhead: 0)
            #expect(middle == Pattern.bytes(700_000..<700_100))
            let end = try await world.read(resource, 1_499_990..<Int64.max, readAhead: 0)
            #expect(end == Pattern.bytes(1_499_990..<1_500_000))
            let past = try await world.read(resource, 1_500_000..<Int64.max)
            #expect(past == [])
            let whole = try await world.read(resource)
            #expect(whole == content)
            #expect(await world.loaders.traffic.bytesFetched == 1_500_000)
            let record = try #require(await world.cache.record(of: resource.key))
            #expect(record.contentType == "audio/mpeg")
            #expect(record.validator != nil)

            let one = try await world.read(Resource(key: key("one"), urls: [server.baseURL + "/one.mp4"]))
            #expect(one == Pattern.bytes(1))
            await #expect(throws: LoadError.empty(url: server.baseURL + "/empty.mp4")) {
                try await world.read(Resource(key: key("empty"), urls: [server.baseURL + "/empty.mp4"]))
            }
            await #expect(throws: LoadError.status(404, url: server.baseURL + "/none.mp4")) {
                try await world.read(Resource(key: key("none"), urls: [server.baseURL + "/none.mp4"]))
            }
            server.stop()
            let offline = try await world.read(resource)
            #expect(offline == content)
        }
    }

    @Test("a wrong password is an error that says what the server asks for", arguments: installed)
    func wrongPassword(kind: RealServer.Kind) async throws {
        try await run(kind) { server, world in
            try server.write(Pattern.bytes(1_000), to: "a.mp4")
            await world.loaders.setCredentials(login(kind, "wrong"), for: try WebOrigin(url: server.baseURL))
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a.mp4"])
            do {
                _ = try await world.read(resource)
                Issue.record("a wrong password was taken")
            } catch LoadError.unauthorized(let status, _, let asksFor) {
                #expect(status == 401)
                #expect(asksFor?.hasPrefix(kind == .apacheDigest ? "Digest for" : "Basic") == true)
            }
            await world.loaders.setCredentials(login(kind), for: try WebOrigin(url: server.baseURL))
            let right = try await world.read(resource)
            #expect(right == Pattern.bytes(1_000))
        }
    }

    @Test("a file that is replaced between two reads is not mixed", arguments: installed)
    func replaced(kind: RealServer.Kind) async throws {
        try await run(kind) { server, world in
            try server.write(Pattern.bytes(900_000), to: "a.mp4")
            await world.loaders.setCredentials(login(kind), for: try WebOrigin(url: server.baseURL))
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a.mp4"])
            _ = try await world.read(resource, 0..<100_000, readAhead: 0)
            // Another length, so that servers whose tags count seconds see it too.
            let new = Pattern.bytes(900_001, version: 1)
            try server.write(new, to: "a.mp4")
            var bytes = Bytes([])
            do { bytes = try await world.read(resource) } catch LoadError.changed {
                bytes = try await world.read(resource)
            }
            #expect(bytes == new)
        }
    }

    @Test(
        "a nonce that went stale is renewed without asking for the password",
        .enabled(if: RealServer.Kind.apacheDigest.isInstalled)) func staleNonce() async throws
    {
        try await run(.apacheDigest) { server, world in
            try server.write(Pattern.bytes(900_000), to: "a.mp4")
            await world.loaders.setCredentials(login(.apacheDigest), for: try WebOrigin(url: server.baseURL))
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a.mp4"])
            for start in stride(from: Int64(0), to: 900_000, by: 300_000) {
                let got = try await world.read(resource, start..<start + 1_000, readAhead: 0)
                #expect(got == Pattern.bytes(Int(start)..<Int(start) + 1_000))
                try await world.loop.sleep(for: .milliseconds(1_300))
            }
        }
    }
}
