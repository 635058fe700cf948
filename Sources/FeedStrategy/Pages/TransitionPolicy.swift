/// What becomes of the page that owns the strategies when another one is entered.
public enum TransitionPolicy: String, Hashable, Sendable, CaseIterable {
    /// It is cleared, and so are the pages that it covers. The way between tabs.
    case clear
    /// It is covered: its strategies rest and its play stands still until the page above is left, to any depth. The way
    /// into a nested page and back.
    case replaceSources
}
