import EventLoop
import FeedVocabulary
import ResourceLoading
import Simulation
import Testing

@testable import FirstFrame

/// Gives the bytes of a clip, and counts what it is asked.
private final class Drive: ResourceLoaderDelegate {
    let asked = Lock<[String: Int]>([:])
    private let loop: SimulatedLoop
    private let content: [UInt8]
    init(on loop: SimulatedLoop, content: [UInt8]) { (self.loop, self.content) = (loop, content) }

    func shouldLoad(_ request: LoadingRequest) -> Bool {
        asked.withLock { $0[request.url, default: 0] += 1 }
        loop.spawn { [content] in
            request.setContentInformation(ContentInformation(length: Int64(content.count), contentType: "video/mp4"))
            let end = request.requestsAllDataToEnd ? Int64.max : request.requestedOffset + request.requestedLength
            let start = min(request.requestedOffset, Int64(content.count))  // asked before the length was known
            await request.respond(with: Array(content[Int(start)..<Int(min(end, Int64(content.count)))]))
            request.finish()
        }
        return true
    }
}

@Suite("Bytes of a runtime") struct BytesTests {
    @Test("a custom scheme serves preload, pre-render, play and direct reads alike") func scheme() throws {
        let world = try SimulatedWorld(seed: 3)
        let content = [UInt8](repeating: 5, count: 400_000)
        let drive = Drive(on: world.loop, content: content)
        try world.run {
            try await world.runtime.register(drive, scheme: "drive")
            let entries = try (0..<3).map { FeedEntry(try URLSource(url: "drive:clip\($0)"), id: .init("\($0)")) }
            let page = try await world.openPage("A", entries)
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
            _ = try await page.play("1")
            #expect(await page.currentMetrics?.servedAs == .preRendered)
            let reader = try await world.runtime.open(entries[2].source)
            var count = 0
            for try await bytes in reader.read() { count += bytes.count }
            #expect(count == 400_000)
            await reader.close()
            let asked = drive.asked.withLock { $0["drive:clip2"] }
            let again = try await world.runtime.open(entries[2].source)
            #expect(try await again.read(at: 399_990, count: 100).count == 10)
            await again.close()
            #expect(drive.asked.withLock { $0["drive:clip2"] } == asked)
        }
    }

    @Test(
        "INPUT-4: ranges of any kind are clamped, never a trap",
        arguments: [
            (Int64(10), Int64.max, 399_990), (Int64.max - 1, Int64.max, 0), (0, 0, 0), (400_000, 400_010, 0),
            (-5, 5, 5),
            (-10, -5, 0),
        ]) func ranges(first: Int64, end: Int64, count: Int) throws
    {
        let world = try SimulatedWorld(seed: 4)
        let drive = Drive(on: world.loop, content: [UInt8](repeating: 5, count: 400_000))
        let read = try world.loop.run { () -> Int in
            try await world.runtime.register(drive, scheme: "drive")
            let reader = try await world.runtime.open(try URLSource(url: "drive:a"))
            var read = 0
            for try await bytes in reader.read(first..<end) { read += bytes.count }
            await reader.close()
            return read
        }
        #expect(read == count)
    }

    @Test("INPUT-3: illegal URLs are refused with what to change, legal ones are taken") func urls() throws {
        for url in ["http://h/%E4%B8%AD%20x", "https://h:8443/a?b=1+2&c=%25", "drive:a/b", "a+b-c.1://x"] {
            _ = try URLSource(url: url)
        }
        for url in [
            "http://h/中", "http://h/a b", "http://h/🎵", "http://h/%", "http://h/%2", "http://h/%zz", "", "x", "1abc:y",
            "http://", "http://h:99999/",
        ] {
            #expect(throws: SourceError.self, "\(url)") { try URLSource(url: url) }
        }
        #expect(throws: SourceError.noURL) { try URLSource(urls: []) }
        #expect(throws: SourceError.length(0)) { try URLSource(urls: [MediaURL("http://h/a")], length: 0) }
        #expect(throws: SourceError.md5("abc")) { try URLSource(urls: [MediaURL("http://h/a")], md5: "abc") }
    }

    @Test("INPUT-9: settings are checked at the call") func settings() throws {
        let world = try SimulatedWorld(seed: 5)
        try world.run {
            let source = try URLSource(url: "http://h/a")
            for readAhead in [Int64(-1), Int64.max] {
                await #expect(throws: ConfigurationError.self) {
                    _ = try await world.runtime.open(source, readAhead: readAhead)
                }
            }
            await #expect(throws: SourceError.self) { try await world.runtime.setCredentials(.bearer("t"), for: "x") }
            await #expect(throws: SourceError.self) {
                try await world.runtime.setCredentials(.bearer("t\r\nX: 1"), for: "http://h/")
            }
            await #expect(throws: SchemeError.reserved("http")) {
                try await world.runtime.register(nil, scheme: "http")
            }
        }
        var configuration = RuntimeConfiguration()
        configuration.stallTimeout = .zero
        #expect(throws: ConfigurationError.self) { try configuration.validate() }
    }

    @Test("cloud sources write their service's URLs and headers") func clouds() throws {
        let song = try URLSource.webDAV(folder: "https://cloud.example/dav/", path: "/Björk/a b&c.flac")
        #expect(song.url == "https://cloud.example/dav/Bj%C3%B6rk/a%20b%26c.flac")
        let dropbox = try URLSource.dropbox(path: "/Musik/ö \"x\".mp3")
        #expect(dropbox.url == "https://content.dropboxapi.com/2/files/download")
        #expect(dropbox.headers["Dropbox-API-Arg"] == #"{"path":"/Musik/\u00f6 \"x\".mp3"}"#)
        #expect(try URLSource.dropbox(path: "/other").cacheKey != dropbox.cacheKey)
        #expect(
            try URLSource.googleDrive(fileID: "1a/b").url
                == "https://www.googleapis.com/drive/v3/files/1a%2Fb?alt=media")
        #expect(try URLSource.oneDrive(itemID: "7").url == "https://graph.microsoft.com/v1.0/me/drive/items/7/content")
    }

    @Test("the expiry of a pre-signed URL is read from it, and its signature is not part of the key") func preSigned()
        throws
    {
        let s3 = "https://b.s3.amazonaws.com/a.mp4?X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-Signature="
        let one = try URLSource.preSigned(s3 + "aaa")
        #expect(one.urls[0].expires == WallTime(secondsSince1970: 1_369_440_000))
        #expect(try URLSource.preSigned(s3 + "bbb").cacheKey == one.cacheKey)
        #expect(
            try URLSource.preSigned("https://h/a?Expires=1700000000&Signature=x").urls[0].expires?.secondsSince1970
                == 1_700_000_000)
        #expect(try URLSource.preSigned("https://h/a?X-Amz-Date=2013&X-Amz-Expires=5").urls[0].expires == nil)
    }
}
