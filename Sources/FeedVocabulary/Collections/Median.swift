extension Collection where Element: Comparable {
    /// The middle one in order, the greater of the two of an even number; `nil` of none.
    package var median: Element? { isEmpty ? nil : sorted()[count / 2] }
}
