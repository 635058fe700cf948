import EventLoop
import FeedVocabulary
import Testing

@Suite("Byte range set") struct ByteRangeSetTests {
    @Test("agrees with a set of single bytes after any history", arguments: UInt64(0)..<50)
    func model(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var spans = ByteRangeSet()
        var model: Set<Int64> = []
        for _ in 0..<200 {
            let start = Int64.random(in: 0..<100, using: &random)
            let range = start..<start + Int64.random(in: 0..<20, using: &random)
            if Bool.random(using: &random) {
                spans.insert(range)
                model.formUnion(range)
            } else {
                spans.remove(range)
                model.subtract(range)
            }
            #expect(spans.count == Int64(model.count))
            #expect(Set(spans.ranges.flatMap { Array($0) }) == model)
            #expect(zip(spans.ranges, spans.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
            let asked = Int64(30)..<70
            #expect(Set(spans.holes(in: asked).flatMap { Array($0) }) == Set(asked).subtracting(model))
            #expect(spans.overlap(with: asked) == Int64(Set(asked).intersection(model).count))
            #expect(spans.contains(asked) == Set(asked).isSubset(of: model))
            let end = spans.contiguousEnd(from: 30)
            #expect(!model.contains(end) && (30..<end).allSatisfy { model.contains($0) })
        }
    }

    @Test("INPUT-4: offset and length saturate instead of overflowing") func saturates() {
        #expect(ByteRange(offset: 10, saturatingLength: .max) == 10..<Int64.max)
        #expect(ByteRange(offset: .max, saturatingLength: 5).isEmpty)
        #expect(ByteRange(offset: 7, saturatingLength: -3).isEmpty)
    }
}
