/// One piece of work for all who ask while it runs. Touched on its loop only.
package final class SharedWork<Value: Sendable> {
    private let loop: any LoopExecutor
    private var running: Task<Value, Never>?

    package init(on loop: any LoopExecutor) { self.loop = loop }

    package var isRunning: Bool { running != nil }

    /// Begins the work, or joins what runs.
    ///
    /// - Returns: What it gave, and whether the caller is the first to hear: who is brings it in, before the others go on.
    package func value(
        of work: @escaping @Sendable () async -> Value
    ) async -> (value: Value, isFirst: Bool) {
        let task = running ?? Task(executorPreference: loop, operation: work)
        running = task
        let value = await task.value
        guard running == task else { return (value, false) }
        running = nil
        return (value, true)
    }
}
