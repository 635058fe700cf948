package import FeedStrategy

/// What a page has under way at this moment, for those who check its promises from outside.
package struct PageAudit: Hashable, Sendable {
    package var state = PageMachine.State.inactive
    package var life = 0
    package var preRender: PreRenderMachine.Phase?
    /// `nil` while the page has no strategies enabled.
    package var isGateOpen: Bool?
    /// What the gate was told last about the current play; `nil` from a change of the current entry on.
    package var look: WatermarkGate.Playing?
    package var lookCount = 0
    package var preloads = 0
    /// Preloads of other entries than the current one.
    package var foreignPreloads = 0
    package var openings = 0
    package var hasSpare = false
    package var taken = 0
    package var starting = 0
    package var chores = 0
    package var isPlayPending = false
    package var hasCurrent = false
    package var hasCarried = false
    package var isTicking = false
    package var isAnnounced = false
    /// Limits of the gate in seconds.
    package var startLimit = 0.0, stopLimit = 0.0

    package init() {}

    /// Whether nothing of the page is left: no task, engine, timer or work.
    package var isIdle: Bool {
        preloads == 0 && openings == 0 && !hasSpare && taken == 0 && starting == 0 && chores == 0 && !hasCurrent
            && !hasCarried && !isTicking
    }
    /// Engines that the page holds or is about to get.
    package var engines: Int {
        openings + taken + starting + (hasSpare ? 1 : 0) + (hasCurrent ? 1 : 0) + (hasCarried ? 1 : 0)
    }
}

extension FeedPage {
    package var audit: PageAudit {
        var audit = PageAudit()
        (audit.state, audit.life, audit.preRender) = (machine.state, machine.life, preRender?.phase)
        (audit.isGateOpen, audit.look, audit.lookCount) = (gate?.isOpen, look, lookCount)
        audit.preloads = preloads.count
        audit.foreignPreloads = preloads.count - (list.current.map { preloads[$0] == nil ? 0 : 1 } ?? 0)
        (audit.openings, audit.taken, audit.starting) = (openings.count, taken.count, starting.count)
        (audit.chores, audit.hasSpare, audit.isTicking) = (
            choreCount, spare != nil, tickTimer != nil || retryTimer != nil
        )
        (audit.hasCurrent, audit.hasCarried) = (current != nil, carried != nil)
        (audit.isPlayPending, audit.isAnnounced) = (pendingPlay != nil, announced != nil)
        let limits = preload?.configuration ?? PreloadConfiguration()
        (audit.startLimit, audit.stopLimit) = (limits.startBufferLimit, limits.stopBufferLimit)
        return audit
    }
}
