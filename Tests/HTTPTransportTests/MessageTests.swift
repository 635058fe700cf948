import FeedVocabulary
import Testing

@testable import HTTPTransport

@Suite("HTTP messages") struct MessageTests {
    @Test("AUTH-2: only fields that tell nothing of who asks go to another origin") func forwarded() {
        let headers: HTTPHeaders = [
            "Authorization": "Bearer t", "X-Api-Key": "k", "Referer": "r", "Accept-Language": "de",
            "range": "bytes=0-1",
        ]
        #expect(Set(headers.forwardedAcrossOrigins.fields.map(\.name)) == ["Accept-Language", "range"])
    }
    @Test(
        "INPUT-7: a length is one sane number or unknown",
        arguments: [
            (["5"], 5), (["5", "5"], 5), (["5", "6"], nil), (["-1"], nil), (["abc"], nil),
            (["99999999999999999999"], nil), ([], nil),
        ] as [([String], Int64?)]) func length(values: [String], length: Int64?)
    {
        let head = HTTPResponseHead(
            status: 200, headers: HTTPHeaders(values.map { ("Content-Length", $0) }), url: "http://h/")
        #expect(head.contentLength == length)
    }
    @Test("Content-Range is read exactly or not at all") func contentRange() {
        #expect(ContentRange("bytes 0-9/10")?.range == 0..<10)
        #expect(ContentRange("Bytes 5-5/*")?.total == nil)
        #expect(ContentRange("bytes */7")?.total == 7)
        for bad in [
            "bytes 9-5/10", "bytes 0-9/5", "bytes +0-9/10", "bytes 0-9", "items 0-9/10", "bytes */*",
            "bytes 0-9223372036854775807/*",
        ] {
            #expect(ContentRange(bad) == nil, "\(bad)")
        }
    }
}

@Suite("Transfer admission") struct AdmissionTests {
    @Test("LIMIT-6: limits per origin hold, and the current entry never waits behind preloads") func limits() throws {
        var admission = TransferAdmission()
        let origin = try WebOrigin(url: "http://h/")
        for id in 0..<10 { admission.enqueue(id, origin: origin, priority: .preload) }
        var running: [Int] = []
        while let id = admission.admitNext() { running.append(id) }
        #expect(running == [0, 1, 2, 3])
        admission.enqueue(100, origin: origin, priority: .current)
        let next = admission.admitNext()
        #expect(next == 100)
        admission.setPriority(9, .current)
        let raised = admission.admitNext()
        #expect(raised == 9)
        for id in 0..<200 { admission.finish(id) }
        #expect(admission.runningCount == 0 && !admission.isWaiting(5))
    }
}
