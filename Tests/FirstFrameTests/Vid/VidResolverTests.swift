import EventLoop
import FirstFrame
import TestSupport
import Testing

@Suite("Volcengine resolver") struct VidResolverTests {
    private func source(_ vid: String = "v1", token: String? = nil) throws -> VidSource {
        try VidSource(vid: vid, playAuthToken: token ?? PlayInfoService.token(vid: vid))
    }

    @Test("the signed query is sent as it is, and the answer becomes files with their URLs and expiry") func resolves()
        async throws
    {
        let files = [
            PlayInfoService.File(definition: "480p", fileID: "f480", url: "http://cdn.test/480.mp4"),
            PlayInfoService.File(
                definition: "720p", codec: "bytevc1", md5: "0123456789ABCDEF0123456789abcdef",
                url: "http://cdn.test/720.mp4"),
            PlayInfoService.File(definition: "audio", url: "http://cdn.test/sound.m4a"),
            PlayInfoService.File(definition: "360p", codec: "unheard-of", url: "http://cdn.test/360.mp4"),
        ]
        let service = try PlayInfoService { _ in (200, PlayInfoService.answer(vid: "v1", files)) }
        let media = try await service.resolve(source())
        #expect(
            service.server.requests.map(\.target) == [
                "/?Action=GetPlayInfo&Version=2020-08-01&Vid=v1&X-Expires=3600&X-Signature=0a%2Fb%3D"
            ])
        #expect(media.vid == "v1" && media.duration == 12.5 && media.posterURL == "http://simulated.test/poster.jpg")
        #expect(media.variants.map(\.name) == ["480p h264", "720p hevc"])
        let first = try #require(media.variants.first)
        #expect(
            first.fileID == "f480" && first.length == 100_000 && first.bitrate == 800_000 && first.headLength == 1106)
        #expect(
            first.urls == [
                MediaURL("http://cdn.test/480.mp4", expires: WallTime(secondsSince1970: 4_000_000_000)),
                MediaURL("http://cdn.test/480.mp4?backup=1", expires: WallTime(secondsSince1970: 4_000_000_100)),
            ])
        #expect(media.variants[1].md5 == "0123456789abcdef0123456789abcdef")
    }

    @Test("base64 for URLs, without padding and with line ends is read too") func base64() async throws {
        let service = try PlayInfoService { _ in
            (200, PlayInfoService.answer(vid: "v?>", [.init(definition: "4k", url: "http://cdn.test/4k.mp4")]))
        }
        var token = PlayInfoService.token(vid: "", query: "a=???>>>").replacing("+", with: "-").replacing(
            "/", with: "_"
        )
        .replacing("=", with: "")
        token.insert("\n", at: token.index(token.startIndex, offsetBy: 20))
        let media = try await service.resolve(VidSource(vid: "v?>", playAuthToken: token))
        #expect(media.variants.map(\.name) == ["4k h264"])
        #expect(service.server.requests.map(\.target) == ["/?a=???>>>"])
    }

    @Test(
        "each thing that can be wrong with a token has its own words, and nothing is sent",
        arguments: [
            ("%%%", "it is no base64"), (PlayInfoService.base64("no json"), "it has no field GetPlayInfoToken"),
            (PlayInfoService.base64(#"{"GetPlayInfoToken":""}"#), "it has no field GetPlayInfoToken"),
            (PlayInfoService.token(vid: "v1", version: "V9"), "its version is V9, known is V2"),
            (PlayInfoService.token(vid: "v1", query: "no query"), "its GetPlayInfoToken is no query"),
        ]) func malformed(token: String, reason: String) async throws
    {
        let service = try PlayInfoService { _ in (200, "{}") }
        await #expect(throws: VidError.malformedToken(vid: "v1", reason: reason)) {
            _ = try await service.resolve(source(token: token))
        }
        #expect(service.server.requests.isEmpty)
    }
    @Test("a token of another id is found before anything is sent, an answer of another id after it") func otherVid()
        async throws
    {
        let service = try PlayInfoService { _ in
            (200, PlayInfoService.answer(vid: "v2", [.init(definition: "480p", url: "http://cdn.test/a.mp4")]))
        }
        await #expect(throws: VidError.otherVid(asked: "v1", got: "v9")) {
            _ = try await service.resolve(source(token: PlayInfoService.token(vid: "v9")))
        }
        #expect(service.server.requests.isEmpty)
        await #expect(throws: VidError.otherVid(asked: "v1", got: "v2")) { _ = try await service.resolve(source()) }
    }

    @Test(
        "what the service says is told in its own words",
        arguments: [
            (
                403, PlayInfoService.failure(code: "InvalidAuthorization", message: "bad signature"),
                VidError.refused(vid: "v1", code: "InvalidAuthorization", message: "bad signature")
            ),
            (
                400, PlayInfoService.failure(code: "RequestExpired", message: "The request is expired."),
                VidError.expiredToken(vid: "v1")
            ),
            (
                400, PlayInfoService.failure(code: "InvalidParameter.VidNotExist", message: "no such vid"),
                VidError.refused(vid: "v1", code: "InvalidParameter.VidNotExist", message: "no such vid")
            ),
            (200, PlayInfoService.answer(vid: "v1", status: 1010, []), VidError.notPlayable(vid: "v1", status: 1010)),
            (200, PlayInfoService.answer(vid: "v1", []), VidError.noVariant(vid: "v1")),
            (200, "<html>", VidError.unreadableAnswer(vid: "v1", reason: "it is no JSON of the known form")),
            (200, "{}", VidError.unreadableAnswer(vid: "v1", reason: "it has neither a result nor an error")),
            (502, "bad gateway", VidError.network(vid: "v1", reason: "it answered 502")),
        ]) func refusals(status: Int, body: String, error: VidError) async throws
    {
        let service = try PlayInfoService { _ in (status, body) }
        await #expect(throws: error) { _ = try await service.resolve(source()) }
    }

    @Test("absurd numbers of the service are no trap") func absurd() async throws {
        let answer = PlayInfoService.answer(
            vid: "v1", [.init(definition: "480p", size: .max, bitrate: .max, url: "http://cdn.test/a.mp4")]
        ).replacing("738-1105", with: "0-9223372036854775807").replacing("12.5", with: "1e300")
        let service = try PlayInfoService { _ in (200, answer) }
        let media = try await service.resolve(source())
        #expect(media.variants.first?.headLength == nil)
    }
    @Test("a service that is down is an error of the network, without the token") func down() async throws {
        let service = try PlayInfoService { _ in (200, "") }
        service.server.stop()
        do {
            _ = try await service.resolve(source())
            Issue.record("it answered")
        } catch let error as VidError {
            guard case .network(vid: "v1", _) = error else { throw error }
            #expect(!error.description.contains("Signature"))
        }
    }

    @Test("a source without an id or a token is refused") func empty() {
        #expect(throws: SourceError.vid("the vid is empty")) { try VidSource(vid: "", playAuthToken: "t") }
        #expect(throws: SourceError.vid("the play-auth token of v1 is empty")) {
            try VidSource(vid: "v1", playAuthToken: "")
        }
        #expect(throws: SourceError.path("a.mp4")) { try FileSource(path: "a.mp4") }
    }
}
