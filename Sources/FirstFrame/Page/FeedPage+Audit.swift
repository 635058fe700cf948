import EventLoop
package import FeedStrategy
package import FeedVocabulary

/// What a page has under way at this moment, for those who check its promises from outside.
package struct PageAudit: Hashable, Sendable {
    package var state = PageMachine.State.inactive
    package var life = 0
    package var preRender: PreRenderMachine.Phase?
    /// `nil` while the page has no strategies enabled.
    package var isGateOpen: Bool?
    /// What the gate was told last about the current play; `nil` from a change of the current entry on.
    package var look: WatermarkGate.Playing?
    package var preloads = 0
    /// Preloads of other entries than the current one.
    package var foreignPreloads = 0
    package var openings = 0
    package var spares = 0
    /// Spare engines that the machine knows of.
    package var readySlots = 0
    package var taken = 0
    package var starting = 0
    package var chores = 0
    package var isPlayPending = false
    package var hasCurrent = false
    package var hasCarried = false
    package var isTicking = false
    package var isAnnounced = false
    package var overlay: Overlay?
    /// Whether strategies may use the network, as far as the host allows it.
    package var mayFetch = true
    /// Whether the viewer's last move was towards the list's begin.
    package var movesBackward = false
    /// Limits of the gate in seconds.
    package var startLimit = 0.0, stopLimit = 0.0

    package init() {}

    /// Whether nothing of the page is left: no task, engine, timer or work.
    package var isIdle: Bool {
        preloads == 0 && openings == 0 && spares == 0 && taken == 0 && starting == 0 && chores == 0 && !hasCurrent
            && !hasCarried && !isTicking
    }
    /// Engines that the page holds or is about to get.
    package var engines: Int {
        openings + taken + starting + spares + (hasCurrent ? 1 : 0) + (hasCarried ? 1 : 0)
    }

    /// What of Docs/Concurrency.md does not hold at this moment, as far as one page tells.
    package func brokenPromises(of id: PageID, under coordinator: CoordinatorMachine) -> [String] {
        var broken: [String] = []
        if state.isOnTop {
            if coordinator.owner != id { broken.append("\(id) is \(state) and not the owner") }
            if coordinator.phase == .suspended { broken.append("\(id) is \(state) in the background") }
        }
        if state == .inactive {
            if coordinator.stack.contains(id) { broken.append("\(id) is inactive and still on the stack") }
            if !isIdle { broken.append("\(id) is inactive and has work: \(self)") }
        }
        if state == .covered, preloads + openings + taken + starting + spares > 0 {
            broken.append("\(id) is covered and its strategies work: \(self)")
        }
        if taken > 1 { broken.append("\(id) keeps \(taken) engines that were taken and not played") }
        if preloads > PreloadConfiguration.maximumInFlight { broken.append("\(id) has \(preloads) preloads") }
        if state == .sourced, spares != readySlots {
            broken.append("\(id) has \(spares) spare engines, its machine knows of \(readySlots)")
        }
        return broken
    }
}

extension FeedPage {
    package var audit: PageAudit {
        var audit = PageAudit()
        (audit.state, audit.life, audit.preRender) = (
            machine.state, machine.life, planner.flatMap { $0.preRenders == nil ? nil : $0.preRender.phase }
        )
        (audit.isGateOpen, audit.look) = (planner?.gate.isOpen, look)
        audit.preloads = preloads.count
        audit.foreignPreloads = preloads.count - (list.current.map { preloads[$0] == nil ? 0 : 1 } ?? 0)
        (audit.openings, audit.taken, audit.starting) = (openings.count, taken.count, starting.count)
        (audit.chores, audit.isTicking) = (choreCount, tickTimer != nil || retryTimer != nil || calmTimer != nil)
        (audit.spares, audit.readySlots) = (spares.count, planner?.preRender.ready.count ?? 0)
        (audit.hasCurrent, audit.hasCarried) = (current != nil, carried != nil)
        (audit.isPlayPending, audit.isAnnounced) = (pendingPlay != nil, planner?.announced != nil)
        audit.overlay = overlay
        audit.mayFetch = runtime.loaders.assumeIsolated { !$0.isOffline && !$0.isBudgetSpent }
        audit.movesBackward = planner?.motion.direction == .backward
        if let gate = planner?.gate { (audit.startLimit, audit.stopLimit) = (gate.start.seconds, gate.stop.seconds) }
        return audit
    }
}
