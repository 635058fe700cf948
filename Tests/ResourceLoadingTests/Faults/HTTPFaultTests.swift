import FeedVocabulary
import HTTPTransport
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

/// What servers do that no proper server does, over a real connection.
@Suite("HTTP faults") struct HTTPFaultTests {
    static let megabyte = Pattern.bytes(1_000_000)

    @Test("HTTP-1: a 200 to a range request is the whole from byte 0, and is cut when enough has come")
    func wholeForRange() async throws {
        let content = Self.megabyte
        let server = try RawResponder { _ in [.whole("200 OK", ["Content-Type: video/mp4"], content)] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .preload, readAhead: 0)
            let got1 = try await reader.read(at: 1_000, count: 1_000)
            #expect(got1 == Pattern.bytes(1_000..<2_000))
            let got2 = try await reader.contentInformation().supportsRanges
            #expect(got2 == false)
            await reader.close()
            #expect(await world.loaders.traffic.bytesFetched < 1_000_000)
        }
        server.stop()
    }

    @Test("HTTP-2: bytes are placed by Content-Range, not by the request") func shifted() async throws {
        let content = Pattern.bytes(10_000)
        let server = try RawResponder { request in
            let first = (request.range?.first ?? 0) / 4_096 * 4_096
            let fields = ["Content-Range: bytes \(first)-9999/10000", "Content-Type: audio/mpeg"]
            return [.whole("206 Partial Content", fields, Array(content[first...]))]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got3 = try await world.read(resource, 5_000..<6_000)
            #expect(got3 == Bytes(Pattern.bytes(5_000..<6_000)))
            let got4 = try await world.read(resource)
            #expect(got4 == Bytes(content))
        }
        server.stop()
    }

    @Test("HTTP-2: an answer that misses the byte asked for is tried again, then an error") func elsewhere()
        async throws
    {
        let server = try RawResponder { _ in
            [.whole("206 Partial Content", ["Content-Range: bytes 9000-9999/10000"], Pattern.bytes(9_000..<10_000))]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.self) { try await world.read(resource, 0..<100) }
            #expect(server.requests.count == 1 + RetryPolicy.maximumRetries)
            #expect(await world.cache.record(of: key("a"))?.ranges.isEmpty ?? true)
        }
        server.stop()
    }

    @Test("HTTP-3, HTTP-12: the length is Content-Range's total, also without a Content-Length") func total()
        async throws
    {
        let server = try RawResponder { request in
            let range = request.range.map { ($0.first, min($0.last ?? 65_535, 65_535)) } ?? (0, 65_535)
            let body = Pattern.bytes(range.0..<range.1 + 1)
            let chunk = Array("\(String(body.count, radix: 16))\r\n".utf8) + body + Array("\r\n0\r\n\r\n".utf8)
            return [
                .answer(
                    "206 Partial Content",
                    ["Content-Range: bytes \(range.0)-\(range.1)/5314622", "Transfer-Encoding: chunked"], chunk)
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            let information = try await reader.contentInformation()
            #expect(information.length == 5_314_622)
            #expect(information.supportsRanges)
            let got5 = try await reader.read(at: 10, count: 100)
            #expect(got5 == Pattern.bytes(10..<110))
            await reader.close()
        }
        server.stop()
    }

    @Test("HTTP-4: an unknown total is unknown, and is learnt later") func unknownTotal() async throws {
        let content = Pattern.bytes(100_000)
        let server = try RawResponder { request in
            let first = request.range?.first ?? 0
            let last = min(request.range?.last ?? 99_999, 99_999)
            guard first < 100_000 else { return [.whole("416 No", ["Content-Range: bytes */100000"])] }
            let total = request.number == 0 ? "*" : "100000"
            return [
                .whole(
                    "206 Partial Content", ["Content-Range: bytes \(first)-\(last)/\(total)", "ETag: \"1\""],
                    Array(content[first...last]))
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            await reader.want([0..<1_000])
            try await reader.wait(for: 0..<1_000)
            #expect(reader.length == nil)
            #expect(!reader.isComplete)
            let got6 = try await reader.read(at: 50_000, count: 10)
            #expect(got6 == Pattern.bytes(50_000..<50_010))
            #expect(reader.length == 100_000)
            await reader.close()
            let got7 = try await world.read(resource)
            #expect(got7 == Bytes(content))
            #expect(await world.cache.record(of: key("a"))?.isComplete == true)
        }
        server.stop()
    }

    @Test("HTTP-5: a body shorter than declared stays partial, and goes on where it ended") func short() async throws {
        let content = Self.megabyte
        let server = try RawResponder { request in
            guard request.number == 0 else { return [.file(content, request)] }
            return [
                .answer(
                    "206 Partial Content", ["Content-Range: bytes 0-999999/1000000", "Content-Length: 1000000"],
                    Array(content[..<600_000])), .close,
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            await reader.want([0..<1_000_000])
            try await reader.wait(for: 0..<1_000_000)
            await reader.close()
            #expect(server.requests.dropFirst().map { $0.range?.first } == [600_000])
            let got8 = try await world.read(resource)
            #expect(got8 == Bytes(content))
        }
        server.stop()
    }

    @Test("HTTP-6: 416 at the end tells the length; no byte of an error page is stored") func unsatisfiable()
        async throws
    {
        let content = Pattern.bytes(5_000)
        let server = try RawResponder { request in
            if request.range?.first ?? 0 >= 5_000 {
                return [.whole("416 No", ["Content-Range: bytes */5000"], Array("<html>no</html>".utf8))]
            }
            return [.whole("206 Partial Content", ["Content-Range: bytes 0-4999/*"], content)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got9 = try await world.read(resource)
            #expect(got9 == Bytes(content))
            let record = await world.cache.record(of: key("a"))
            #expect(record?.length == 5_000)
            #expect(record?.ranges.ranges == [0..<5_000])
        }
        server.stop()
    }

    @Test("HTTP-6: 416 with a smaller length means another file: the old bytes go") func shrunk() async throws {
        let old = Pattern.bytes(5_000)
        let new = Pattern.bytes(2_000, version: 1)
        let server = try RawResponder { request in
            request.number == 0
                ? [.whole("206 Partial Content", ["Content-Range: bytes 0-2999/*"], Array(old[..<3_000]))]
                : [.file(new, request, tag: nil)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got10 = try await world.read(resource, 0..<3_000, readAhead: 0)
            #expect(got10 == Bytes(Array(old[..<3_000])))
            await #expect(throws: LoadError.self) { try await world.read(resource, 0..<5_000) }
            let got11 = try await world.read(resource)
            #expect(got11 == Bytes(new))
        }
        server.stop()
    }

    @Test("HTTP-7: HEAD is never sent") func noHead() async throws {
        let content = Pattern.bytes(3_000)
        let server = try RawResponder { request in
            request.method == "HEAD" ? [.whole("403 Forbidden")] : [.file(content, request)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            let information = try await reader.contentInformation()
            #expect(information.length == 3_000)
            #expect(information.contentType == "video/mp4")
            await reader.close()
            #expect(server.requests.allSatisfy { $0.method == "GET" })
        }
        server.stop()
    }

    @Test("HTTP-8: 202 is not ready: asked again, never stored, and after the budget an error") func notReady()
        async throws
    {
        let content = Pattern.bytes(3_000)
        let server = try RawResponder { request in
            request.number < 3 || request.target == "/never"
                ? [.whole("202 Accepted", ["Content-Type: application/json"], Array("{}".utf8))]
                : [.file(content, request)]
        }
        try await LoaderWorld.run { world in
            let got12 = try await world.read(Resource(key: key("a"), urls: [server.baseURL + "/a"]))
            #expect(got12 == Bytes(content))
            let never = Resource(key: key("b"), urls: [server.baseURL + "/never"])
            await #expect(throws: LoadError.status(202, url: server.baseURL + "/never")) { try await world.read(never) }
        }
        server.stop()
    }

    @Test("HTTP-10: a coded answer is refused, and identity is asked for") func coded() async throws {
        let server = try RawResponder { _ in
            [
                .whole(
                    "206 Partial Content", ["Content-Range: bytes 0-99/1000", "Content-Encoding: gzip"],
                    Pattern.bytes(100))
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.self) { try await world.read(resource) }
            #expect(server.requests[0].headers["accept-encoding"] == "identity")
            #expect(await world.cache.record(of: key("a"))?.ranges.isEmpty ?? true)
        }
        server.stop()
    }

    @Test("HTTP-11: a 206 may hold less than asked; the rest is asked for") func capped() async throws {
        let content = Self.megabyte
        let server = try RawResponder { request in
            let first = request.range?.first ?? 0
            let last = min(first + 99_999, min(request.range?.last ?? .max, 999_999))
            return [
                .whole(
                    "206 Partial Content", ["Content-Range: bytes \(first)-\(last)/1000000", "ETag: \"1\""],
                    Array(content[first...last]))
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got13 = try await world.read(resource)
            #expect(got13 == Bytes(content))
            #expect(await world.loaders.traffic.bytesFetched == 1_000_000)
        }
        server.stop()
    }

    @Test("a multipart answer to one range is read like the range") func multipart() async throws {
        let content = Self.megabyte
        let server = try RawResponder { request in
            let first = request.range?.first ?? 0
            let last = min(request.range?.last ?? 999_999, 999_999)
            let head = "--b7\r\nContent-Type: audio/mpeg\r\nContent-Range: bytes \(first)-\(last)/1000000\r\n\r\n"
            let body = Array(head.utf8) + content[first...last] + Array("\r\n--b7--\r\n".utf8)
            return [.whole("206 Partial Content", ["Content-Type: multipart/byteranges; boundary=\"b7\""], body)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got14 = try await world.read(resource)
            #expect(got14 == Bytes(content))
            #expect(await world.cache.record(of: key("a"))?.contentType == "audio/mpeg")
        }
        server.stop()
    }

    @Test("CACHE-5: old and new bytes never mix when the file changes between requests") func changed() async throws {
        let (old, new) = (Self.megabyte, Pattern.bytes(1_000_000, version: 1))
        let server = try RawResponder { request in
            request.number == 0 ? [.file(old, request, tag: "\"a\"")] : [.file(new, request, tag: "\"b\"")]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got15 = try await world.read(resource, 0..<10_000, readAhead: 0)
            #expect(got15 == Bytes(Array(old[..<10_000])))
            await #expect(throws: LoadError.changed(url: server.baseURL + "/a")) {
                try await world.read(resource, 500_000..<600_000)
            }
            #expect(server.requests[1].headers["if-range"] == "\"a\"")
            let got16 = try await world.read(resource)
            #expect(got16 == Bytes(new))
        }
        server.stop()
    }

    @Test("CACHE-11: a body of unknown length ends where the message ends, and is stored once") func chunked()
        async throws
    {
        let content = Self.megabyte
        let server = try RawResponder { _ in
            var body: [UInt8] = []
            for start in stride(from: 0, to: content.count, by: 50_000) {
                body += Array("c350\r\n".utf8) + content[start..<start + 50_000] + Array("\r\n".utf8)
            }
            return [
                .answer(
                    "200 OK", ["Transfer-Encoding: chunked", "Content-Type: audio/mpeg"], body + Array("0\r\n\r\n".utf8)
                )
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got17 = try await world.read(resource)
            #expect(got17 == Bytes(content))
            let requests = server.requests.count
            let got18 = try await world.read(resource)
            #expect(got18 == Bytes(content))
            #expect(server.requests.count == requests)
            #expect(await world.cache.record(of: key("a"))?.length == 1_000_000)
        }
        server.stop()
    }

    @Test("CACHE-12: a login page with 200 is not the film: nothing of it is stored, what was stored stays")
    func loginPage() async throws {
        let content = Self.megabyte
        let server = try RawResponder { request in
            request.number == 1
                ? [.whole("200 OK", ["Content-Type: Text/HTML; charset=utf-8"], Array("<html>log in</html>".utf8))]
                : [.file(content, request)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got19 = try await world.read(resource, 0..<10_000, readAhead: 0)
            #expect(got19 == Bytes(Array(content[..<10_000])))
            let got20 = try await world.read(resource)
            #expect(got20 == Bytes(content))
            #expect(await world.loaders.traffic.bytesFetched == 1_000_000)
        }
        server.stop()
    }

    @Test(
        "INPUT-7: senseless lengths are unknown or an error, never a crash",
        arguments: [
            ["Content-Length: -1"], ["Content-Length: abc"], ["Content-Length: 10", "Content-Length: 20"],
            ["Content-Length: 99999999999999999999"], [],
        ]) func lengths(fields: [String]) async throws
    {
        let server = try RawResponder { _ in
            [.answer("200 OK", fields + ["Content-Type: video/mp4", "Connection: close"], Pattern.bytes(10)), .close]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let bytes = try? await world.read(resource)
            #expect(bytes == nil || bytes == Bytes(Pattern.bytes(10)))
        }
        server.stop()
    }

    @Test(
        "INPUT-8: what is sent under an invalid Content-Range is not stored",
        arguments: [
            ["Content-Range: bytes 100-50/200"], ["Content-Range: bytes 0-9/5"], ["Content-Range: bytes abc"],
            ["Content-Range: items 0-9/10"], [], ["Content-Range: bytes 0-9/10", "Content-Range: bytes 5-14/20"],
            ["Content-Range: bytes 0-4/10"],
        ]) func contentRanges(fields: [String]) async throws
    {
        let server = try RawResponder { _ in [.whole("206 Partial Content", fields, Pattern.bytes(10))] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.self) { try await world.read(resource) }
            #expect(await world.cache.record(of: key("a"))?.ranges.isEmpty ?? true)
        }
        server.stop()
    }

    @Test("INPUT-10: an empty file is an error once", arguments: [true, false]) func empty(withRanges: Bool)
        async throws
    {
        let server = try RawResponder { _ in
            withRanges
                ? [.whole("416 No", ["Content-Range: bytes */0"])] : [.whole("200 OK", ["Content-Type: video/mp4"])]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.empty(url: server.baseURL + "/a")) { try await world.read(resource) }
            #expect(server.requests.count == 1)
        }
        server.stop()
    }

    @Test("INPUT-5: offsets beyond 2 and 4 GB are right on the wire and in the file") func large() async throws {
        let length = 6 << 30
        let server = try RawResponder { request in
            guard let range = request.range else { return [.close] }
            let last = min(range.last ?? range.first + 9_999, range.first + 9_999, length - 1)
            return [
                .whole(
                    "206 Partial Content", ["Content-Range: bytes \(range.first)-\(last)/\(length)", "ETag: \"1\""],
                    Pattern.bytes(range.first..<last + 1))
            ]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            for place in [1 << 31, 1 << 32, length] {
                let range = Int64(place - 3)..<Int64(place + 3)
                let expected = Pattern.bytes(place - 3..<min(place + 3, length))
                let got21 = try await world.read(resource, range, readAhead: 0)
                #expect(got21 == Bytes(expected))
            }
            #expect(await world.cache.used < 100_000)
        }
        server.stop()
    }

    @Test("CACHE-8: reading at or past the end is decided here, without a request") func pastTheEnd() async throws {
        let content = Pattern.bytes(3_000)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got22 = try await world.read(resource)
            #expect(got22 == Bytes(content))
            let requests = server.requests.count
            let got23 = try await world.read(resource, 3_000..<4_000)
            #expect(got23 == Bytes([]))
            let got24 = try await world.read(resource, 3_010..<4_000)
            #expect(got24 == Bytes([]))
            let got25 = try await world.read(resource, Int64.max - 1..<Int64.max)
            #expect(got25 == Bytes([]))  // INPUT-4
            #expect(server.requests.count == requests)
        }
        server.stop()
    }

    @Test("CACHE-13: the last bytes, fewer than any block, are delivered") func lastBlock() async throws {
        let content = Pattern.bytes(815_259)
        let server = try RawResponder { request in
            guard request.range?.first == 800_000 else { return [.file(content, request)] }
            let fields = ["Content-Range: bytes 800000-815258/815259", "Content-Length: 15259", "ETag: \"1\""]
            return [.answer("206 Partial Content", fields)]
                + stride(from: 800_000, to: 815_259, by: 5_000).flatMap {
                    [.wait(seconds: 0.02), .send(Pattern.bytes($0..<min($0 + 5_000, 815_259)))]
                }
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let got26 = try await world.read(resource, 800_000..<Int64.max).count
            #expect(got26 == 15_259)
        }
        server.stop()
    }
}
