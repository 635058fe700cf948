import EventLoop
import FeedVocabulary
import Testing

@testable import ResourceLoading

@Suite("Hosts that ask to be left alone") struct HostBackoffTests {
    private let host: WebOrigin
    init() throws { host = try WebOrigin(url: "http://a.example/") }
    private func time(_ seconds: Double) -> LoopInstant {
        LoopInstant(offset: .milliseconds(Int((seconds * 1000).rounded())))
    }

    @Test("when the time is over one asks alone, and what the host says to that one holds for all") func alone() {
        var backoff = HostBackoff()
        #expect(backoff.due(host, now: time(0)) == nil)
        backoff.note(host, until: time(1), now: time(0))
        #expect(backoff.due(host, now: time(0.5)) == time(1))
        #expect(backoff.due(host, now: time(1)) == nil, "the first who asks")
        #expect(backoff.due(host, now: time(1)) == time(1.3), "the others wait for its answer")
        backoff.note(host, until: time(2.1), now: time(1.1))
        #expect(backoff.due(host, now: time(1.5)) == time(2.1))
        #expect(backoff.due(host, now: time(2.2)) == nil, "again one")
        #expect(backoff.due(host, now: time(2.2)) == time(2.5))
        #expect(backoff.due(host, now: time(2.6)) == nil, "it answered well")
        #expect(backoff.due(host, now: time(2.6)) == nil)
    }
}
