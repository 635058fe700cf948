import FeedStrategy
import FeedVocabulary
import FirstFrame
import Playback

/// What Docs/Concurrency.md promises, asked after every step of a run.
struct Guarantees: Sendable {
    private(set) var violations: [String] = []
    private(set) var coverage = MachineCoverage()

    /// What was seen of a page after the step before.
    private struct Page: Sendable {
        let page: ObjectIdentifier
        var audit: PageAudit
        /// The gate as its rules have it, computed apart.
        var isGateOpen = true
    }
    private var pages: [Page?] = []
    private var phase: CoordinatorMachine.Phase?
    private var standsStill = false

    mutating func violated(_ text: String) { violations.append(text) }
    mutating func forgetPages() { (pages, phase, standsStill) = ([], nil, false) }

    // MARK: After every step

    mutating func check(
        pages current: [FeedPage?], coordinator: CoordinatorMachine, liveEngines: Int, audible: Int, engineLimit: Int
    ) {
        check(coordinator)
        // From the moment that the owner stands still until the app is back, whatever is entered and left meanwhile.
        standsStill = coordinator.isSuspended && (standsStill || coordinator.phase == .suspended)
        if standsStill, audible > 0 { violated("\(audible) engines are heard in the background") }
        if audible > 1 { violated("\(audible) engines are heard at once") }
        if liveEngines > engineLimit { violated("\(liveEngines) engines exist, \(engineLimit) are allowed") }
        if pages.count != current.count { pages = Array(repeating: nil, count: current.count) }
        var owners = 0
        for (index, page) in current.enumerated() {
            guard let page else {
                pages[index] = nil
                continue
            }
            let audit = page.assumeIsolated { $0.audit }
            if pages[index]?.page != ObjectIdentifier(page) {
                pages[index] = Page(page: ObjectIdentifier(page), audit: PageAudit())
            }
            if audit.state.isOnTop { owners += 1 }
            violations += audit.brokenPromises(of: page.id, under: coordinator)
            check(page.id, audit, index)
        }
        if owners > 1 { violated("\(owners) pages own the strategies") }
    }

    private mutating func check(_ coordinator: CoordinatorMachine) {
        let now = coordinator.phase
        if !coverage.saw("coordinator", phase?.rawValue, now.rawValue) {
            violated("the coordinator went from \(String(describing: phase)) to \(now)")
        }
        phase = now
        if let owner = coordinator.owner, coordinator.stack.last != owner {
            violated("\(owner) owns, and is not on top")
        }
        if Set(coordinator.stack).count != coordinator.stack.count { violated("a page is twice on the stack") }
    }

    private mutating func check(_ id: PageID, _ audit: PageAudit, _ index: Int) {
        guard var known = pages[index] else { return }
        defer { pages[index] = known }
        if known.audit == audit { return }
        let old = known.audit
        if !coverage.saw("page", old.state.rawValue, audit.state.rawValue) {
            violated("\(id) went from \(old.state) to \(audit.state)")
        }
        // A new life, or a return to the top, has a new machine.
        let isSameMachine = old.life == audit.life && (old.state != .covered || audit.state == .covered)
        if let now = audit.preRender,
            !coverage.saw("pre-render", isSameMachine ? old.preRender?.rawValue : nil, now.rawValue)
        {
            violated("the spare place of \(id) went from \(String(describing: old.preRender)) to \(now)")
        }
        if let isOpen = audit.isGateOpen {
            let before = isSameMachine ? old.isGateOpen.map { $0 ? "open" : "closed" } : nil
            _ = coverage.saw("gate", before, isOpen ? "open" : "closed")
        }
        if audit.state.isOnTop { checkGate(id, audit, &known, isSameMachine) }
        known.audit = audit
    }

    /// The rules of the watermark gate, from what the page was told of its play.
    private mutating func checkGate(_ id: PageID, _ audit: PageAudit, _ known: inout Page, _ isSameMachine: Bool) {
        if !isSameMachine { (known.isGateOpen, known.audit.look) = (true, nil) }
        if !audit.hasCurrent, !audit.hasCarried, !audit.isPlayPending {
            // It opens at the next plan: a page that has just given its play away makes none.
            known.isGateOpen = audit.isGateOpen ?? true
        } else if let look = audit.look {
            // The first look at a play finds the gate closed.
            if known.audit.look == nil { known.isGateOpen = false }
            if look.isComplete {
                known.isGateOpen = true
            } else if look.isStalled || look.bufferedAhead < .seconds(audit.stopLimit) {
                known.isGateOpen = false
            } else if look.bufferedAhead >= .seconds(audit.startLimit) {
                known.isGateOpen = true
            }
        } else {
            known.isGateOpen = false
        }
        if audit.isGateOpen != known.isGateOpen {
            violated("the gate of \(id) is open: \(audit.isGateOpen ?? false), and should not be so: \(audit)")
        }
        guard !known.isGateOpen, audit.hasCurrent || audit.hasCarried || audit.isPlayPending else { return }
        if audit.foreignPreloads > 0 { violated("\(id) preloads other entries though its gate is closed: \(audit)") }
        if audit.preRender == .opening, !audit.isAnnounced {
            violated("\(id) opens a spare engine though its gate is closed: \(audit)")
        }
    }

    // MARK: At rest

    /// Nothing was done for a while.
    mutating func shouldRest(_ page: FeedPage, _ audit: PageAudit) {
        if !audit.mayFetch, audit.foreignPreloads > 0 {
            violated("\(page.id) preloads without a network or a budget: \(audit)")
        }
    }

    /// Nothing went wrong for seconds, and all of the current entry is there: the next one is, too.
    mutating func shouldBeReady(_ page: FeedPage, _ audit: PageAudit, engineLimit: Int, preRenders: Bool) {
        guard audit.hasCurrent else {
            if !audit.hasCarried, audit.isGateOpen == false {
                violated("\(page.id) plays nothing and its gate is closed")
            }
            return
        }
        let (next, peek) = page.assumeIsolated { page in
            let next = (audit.movesBackward ? page.list.previous.first : nil) ?? page.list.upcoming.first
            return (next, next.map { page.peekPreRenderedEngine(for: $0) })
        }
        guard audit.isGateOpen == true else {
            if audit.look?.isComplete == true { violated("\(page.id) has all it plays and its gate is closed") }
            return
        }
        guard preRenders, let next, !audit.isAnnounced, audit.engines < engineLimit else { return }
        guard audit.mayFetch, audit.overlay == nil else { return }
        if peek != .ready { violated("\(next), the next entry of \(page.id), is not ready: \(audit)") }
    }

    mutating func saw(engineMoves moves: Set<[EngineMachine.State]>) {
        for move in moves where !coverage.saw("engine", move[0].rawValue, move[1].rawValue) {
            violated("an engine went from \(move[0]) to \(move[1])")
        }
    }
}
