import EventLoop
package import FeedStrategy
import FeedVocabulary

/// Carries out page switches: one at a time, the old owner cleared or covered before the new one is enabled.
package actor FeedCoordinator {
    nonisolated private let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private struct WeakPage { weak var page: FeedPage? }

    package private(set) var machine = CoordinatorMachine()
    private var pages: [PageID: WeakPage] = [:]
    private var turns: [CoordinatorMachine.Ticket: CheckedContinuation<Void, any Error>] = [:]
    /// Answers to requests whose task was still on its way to wait for them.
    private var early: [CoordinatorMachine.Ticket: Result<Void, any Error>] = [:]
    private var settlers: [CheckedContinuation<Void, Never>] = []
    /// Whether covered and suspended pages keep their engine and its frame.
    private let keepsPlays: Bool
    private var suspensionKeepsEngines = true

    /// - Parameter engineLimit: Engines that there can be; two are needed for the page that is on screen.
    init(on loop: any LoopExecutor, engineLimit: Int) { (self.loop, keepsPlays) = (loop, engineLimit > 2) }

    // MARK: Pages

    func register(_ page: FeedPage) throws(FeedError) {
        guard !machine.isStopped else { throw .stopped }
        guard pages[page.id]?.page == nil else { throw .pageExists(page.id) }
        // A page of that name may have gone away a moment ago, and not be forgotten yet.
        if pages[page.id] != nil { machine.cleared(page.id) }
        pages[page.id] = WeakPage(page: page)
    }

    /// A page went away, without a clear perhaps: whatever it owned is free.
    nonisolated func forget(_ page: PageID) {
        loop.post {
            self.assumeIsolated { coordinator in
                guard coordinator.pages[page]?.page == nil else { return }
                coordinator.pages[page] = nil
                coordinator.machine.cleared(page)
            }
        }
    }

    /// A page wants to enable its strategies by itself. Called on the loop, without a suspension between question and
    /// answer.
    func claim(_ page: PageID) throws(FeedError) {
        guard !machine.isStopped else { throw .stopped }
        guard let other = machine.claim(page) else { return }
        guard pages[other]?.page == nil else { throw .ownedByOther(other) }
        machine.cleared(other)
        if let third = machine.claim(page) { throw .ownedByOther(third) }
    }

    func cleared(_ page: PageID) { machine.cleared(page) }

    // MARK: Switches

    func enter(_ page: FeedPage, by policy: TransitionPolicy, carryingPlay: Bool) async throws {
        guard !machine.isStopped else { throw FeedError.stopped }
        guard pages[page.id]?.page === page else { throw FeedError.foreignPage(page.id) }
        try Task.checkCancellation()  // a cancelled call changes nothing, not even for those who wait
        let ticket = try await turn(.enter(page.id, policy))
        defer { finish(ticket) }
        try Task.checkCancellation()  // nothing is touched yet
        let departure = machine.depart(ticket)
        var carried: CarriedPlay?
        if carryingPlay, let owner = machine.owner, owner != page.id {
            carried = await pages[owner]?.page?.surrenderPlay(whileCovering: departure.covers == owner)
        }
        for old in departure.clears {
            await pages[old]?.page?.endLife()
            machine.cleared(old)  // a page that went away has nothing left to clear
        }
        if let deeper = departure.dropsPlay { await pages[deeper]?.page?.dropCoveredPlay() }
        if let old = departure.covers {
            await pages[old]?.page?.cover(keepingPlay: keepsPlays)
            machine.covered(old)
        }
        do {
            try Task.checkCancellation()
            try await arrive(page, ticket, carried)
        } catch {
            if let carried { await carried.end() }
            throw error
        }
    }

    private func arrive(_ page: FeedPage, _ ticket: CoordinatorMachine.Ticket, _ carried: CarriedPlay?) async throws {
        while await page.isClearing { await page.clearingEnds() }
        try land(page, ticket, carried)
        if machine.isSuspended { await page.coverEnds() }
    }

    /// Makes the page the owner and sets its strategies to work, with no suspension in which it could be left.
    private func land(_ page: FeedPage, _ ticket: CoordinatorMachine.Ticket, _ carried: CarriedPlay?) throws(FeedError)
    {
        let arrival = machine.arrive(ticket)
        let isSuspended = machine.isSuspended
        let landing = page.assumeIsolated { page -> Result<Void, FeedError> in
            switch arrival {
            case .superseded: .failure(FeedError.superseded)
            case .stays, .enables:
                Result { () throws(FeedError) in try page.enter(carrying: carried, standingStill: isSuspended) }
            // In the background it stays as it is, and comes back with the app.
            case .uncovers where isSuspended && page.machine.state == .covered: .success(())
            case .uncovers: page.uncover(carrying: carried) ? .success(()) : .failure(FeedError.superseded)
            }
        }
        if case .failure = landing, arrival == .enables || arrival == .uncovers { machine.cleared(page.id) }
        if machine.isStopped { throw .stopped }
        try landing.get()
    }

    /// The host clears a page: its switches, waiting or under way, come to nothing.
    func withdrawSwitches(to page: PageID) {
        if let refused = machine.leaves(page) { answer(refused, .failure(FeedError.superseded)) }
    }

    /// Engines that stand still on covered pages: as many fewer are there for the page on top.
    var coveredPlays: Int {
        machine.stack.count { pages[$0]?.page?.assumeIsolated { $0.shown != nil && !$0.isOnTop } ?? false }
    }

    /// Clears a page; the one that it covered comes back.
    func leave(_ page: FeedPage) async {
        await page.clear()
        if let ticket = machine.restore() { carryOut(ticket) }
        await settled()
    }

    /// Does what no host waits for: a task that is cancelled must not leave it undone.
    private func carryOut(_ ticket: CoordinatorMachine.Ticket) {
        switch ticket.goal {
        case .settle: settle(ticket)
        case .restore(let below): loop.spawn { await self.restore(below, ticket) }
        case .enter: answer(ticket, .success(()))
        }
    }

    private func restore(_ below: PageID, _ ticket: CoordinatorMachine.Ticket) async {
        if let page = pages[below]?.page {
            try? await arrive(page, ticket, nil)  // given up when the page is left, or the runtime ends
        } else {
            machine.cleared(below)
        }
        finish(ticket)
    }

    /// Waits until it is the turn of a new switch.
    private func turn(_ goal: CoordinatorMachine.Goal) async throws -> CoordinatorMachine.Ticket {
        let (ticket, request) = machine.request(goal)
        guard case .waits(let superseded) = request else { return ticket }
        if let superseded { answer(superseded, .failure(FeedError.superseded)) }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if let answer = early.removeValue(forKey: ticket) { return continuation.resume(with: answer) }
                if Task.isCancelled, machine.withdraw(ticket) {
                    return continuation.resume(throwing: CancellationError())
                }
                turns[ticket] = continuation
            }
        } onCancel: {
            loop.post { self.assumeIsolated { $0.withdraw(ticket, because: CancellationError()) } }
        }
        return ticket
    }

    private func answer(_ ticket: CoordinatorMachine.Ticket, _ answer: Result<Void, any Error>) {
        if let turn = turns.removeValue(forKey: ticket) {
            turn.resume(with: answer)
        } else {
            early[ticket] = answer
        }
    }

    private func withdraw(_ ticket: CoordinatorMachine.Ticket, because error: any Error) {
        if machine.withdraw(ticket) { answer(ticket, .failure(error)) }
    }

    private func finish(_ ticket: CoordinatorMachine.Ticket) {
        if let next = machine.finished(ticket) { carryOut(next) }
        wakeSettlers()
    }

    // MARK: Background

    /// The page that owns the strategies stands still, or goes on; returns when it does.
    ///
    /// - Parameter keepingEngines: Whether its play keeps engine and position, for an instant return.
    func suspend(_ isSuspended: Bool, keepingEngines: Bool) async {
        if isSuspended { suspensionKeepsEngines = keepingEngines }
        if let ticket = machine.suspend(isSuspended) { carryOut(ticket) }
        await settled()
        guard isSuspended, machine.isSuspended, !suspensionKeepsEngines else { return }
        for page in machine.stack { await pages[page]?.page?.dropCoveredPlay() }
    }

    private func settled() async {
        await withCheckedContinuation { waiter in
            if machine.isSettled { waiter.resume() } else { settlers.append(waiter) }
        }
    }

    private func settle(_ ticket: CoordinatorMachine.Ticket) {
        let stands = machine.settle()
        loop.spawn { await self.bringOwnerInLine(ticket, stands) }
    }

    private func bringOwnerInLine(_ ticket: CoordinatorMachine.Ticket, _ stands: Bool) async {
        if let page = machine.owner.flatMap({ pages[$0]?.page }) {
            if stands {
                await page.cover(keepingPlay: keepsPlays && suspensionKeepsEngines)
            } else {
                await page.uncover(carrying: nil)
            }
        }
        finish(ticket)
    }

    private func wakeSettlers() {
        guard machine.isSettled else { return }
        let waiters = settlers
        settlers = []
        for waiter in waiters { waiter.resume() }
    }

    // MARK: The network

    /// The network, or what strategies may take of it, is another one: the owner plans anew.
    func networkChanged() {
        guard let page = machine.owner.flatMap({ pages[$0]?.page }) else { return }
        page.assumeIsolated { $0.networkChanged() }
    }

    // MARK: The end

    func clearAll() async { for (_, page) in pages.inOrder { await page.page?.clear() } }

    func shutdown() async {
        machine.stop()
        for ticket in turns.keys.sorted(by: { $0.number < $1.number }) { withdraw(ticket, because: FeedError.stopped) }
        wakeSettlers()
        await clearAll()
        for (_, page) in pages.inOrder { page.page?.events.channel.finish() }
    }
}
