import FeedVocabulary
import Testing

@Suite("Recent items") struct RecentItemsTests {
    @Test("the one that was changed longest ago makes room; looking at it does not help") func oldest() {
        var items = RecentItems<String, Int>(capacity: 2)
        (items["a"], items["b"]) = (1, 2)
        #expect(items["a"] == 1)
        items["a"] = 3
        #expect(items["b"] == 2)
        items["c"] = 4
        #expect(items["b"] == nil && items["a"] == 3 && items["c"] == 4)
        items["a"] = nil
        items["d"] = 5
        #expect(Set(items.values) == [4, 5])
    }

    @Test("a change in place begins with what is given, and returns what had to go") func update() {
        var items = RecentItems<String, [Int]>(capacity: 1)
        #expect(items.update("a", default: []) { $0.append(1) } == nil)
        #expect(items.update("a", default: [9]) { $0.append(2) } == nil)
        #expect(items["a"] == [1, 2])
        #expect(items.update("b", default: [9]) { $0.append(3) } == [1, 2])
        #expect(items["b"] == [9, 3])
        items.removeAll()
        #expect(items["b"] == nil)
    }

    @Test("a median is the middle one in order, the greater of two middle ones, and none of nothing") func median() {
        #expect([5, 1, 3].median == 3 && [4, 1, 3, 2].median == 3 && [Int]().median == nil)
    }
}
