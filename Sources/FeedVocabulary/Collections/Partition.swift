extension RandomAccessCollection {
    /// The first place from which on `isAfter` is true, found by halving; it must be false everywhere before.
    package func partitioningIndex(where isAfter: (Element) -> Bool) -> Index {
        var (low, count) = (startIndex, self.count)
        while count > 0 {
            let middle = index(low, offsetBy: count / 2)
            if isAfter(self[middle]) {
                count /= 2
            } else {
                low = index(after: middle)
                count -= count / 2 + 1
            }
        }
        return low
    }
}
