import EventLoop
import FeedStrategy
import FeedVocabulary

/// Carries out page switches: one at a time, the old owner cleared before the new one is enabled.
actor FeedCoordinator {
    nonisolated private let loop: any LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private struct WeakPage { weak var page: FeedPage? }

    private var machine = CoordinatorMachine()
    private var pages: [PageID: WeakPage] = [:]
    private var turns: [CoordinatorMachine.Ticket: CheckedContinuation<Void, any Error>] = [:]
    /// Answers to requests whose task was still on its way to wait for them.
    private var early: [CoordinatorMachine.Ticket: Result<Void, any Error>] = [:]
    private var isStopped = false

    init(on loop: any LoopExecutor) { self.loop = loop }

    var owner: PageID? { machine.owner }

    func register(_ page: FeedPage) throws(FeedError) {
        guard !isStopped else { throw .stopped }
        guard pages[page.id]?.page == nil else { throw .pageExists(page.id) }
        pages = pages.filter { $0.value.page != nil }
        pages[page.id] = WeakPage(page: page)
    }

    func enter(_ page: FeedPage) async throws {
        guard !isStopped else { throw FeedError.stopped }
        guard pages[page.id]?.page === page else { throw FeedError.foreignPage(page.id) }
        let (ticket, request) = machine.request(page.id)
        if case .waits(let superseded) = request {
            if let superseded { answer(superseded, .failure(FeedError.superseded)) }
            try await waitForTurn(ticket)
        }
        defer { finish(ticket) }
        if let owner = machine.owner, owner != page.id { await pages[owner]?.page?.clear() }
        // A page that went away while it owned has nothing left to clear.
        if let owner = machine.owner, owner != page.id { machine.cleared(owner) }
        guard !isStopped else { throw FeedError.stopped }
        try await page.enter()
    }

    private func waitForTurn(_ ticket: CoordinatorMachine.Ticket) async throws {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if let answer = early.removeValue(forKey: ticket) { return continuation.resume(with: answer) }
                if isStopped { return continuation.resume(throwing: FeedError.stopped) }
                if Task.isCancelled, machine.withdraw(ticket) {
                    return continuation.resume(throwing: CancellationError())
                }
                turns[ticket] = continuation
            }
        } onCancel: {
            loop.post { self.assumeIsolated { $0.withdraw(ticket) } }
        }
    }

    private func answer(_ ticket: CoordinatorMachine.Ticket, _ answer: Result<Void, any Error>) {
        if let turn = turns.removeValue(forKey: ticket) {
            turn.resume(with: answer)
        } else {
            early[ticket] = answer
        }
    }

    private func withdraw(_ ticket: CoordinatorMachine.Ticket) {
        if machine.withdraw(ticket) { answer(ticket, .failure(CancellationError())) }
    }

    private func finish(_ ticket: CoordinatorMachine.Ticket) {
        if let next = machine.finished(ticket) { answer(next, .success(())) }
    }

    /// A page wants to enable its strategies by itself.
    func claim(_ page: PageID) throws(FeedError) {
        guard !isStopped else { throw .stopped }
        if let other = machine.claim(page) {
            guard pages[other]?.page == nil else { throw .ownedByOther(other) }
            machine.cleared(other)
            _ = machine.claim(page)
        }
    }

    func cleared(_ page: PageID) { machine.cleared(page) }

    func clearAll() async { for page in pages.values { await page.page?.clear() } }

    func shutdown() async {
        isStopped = true
        for turn in turns.values { turn.resume(throwing: FeedError.stopped) }
        turns = [:]
        await clearAll()
        for page in pages.values { page.page?.events.channel.finish() }
    }
}
