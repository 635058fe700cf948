package import FeedVocabulary

/// Decides which byte ranges of one resource are requested: every hole once, however many ask for it.
package struct FetchPlanner: Sendable {
    /// What one reader wants, most wanted first.
    package struct Demand: Hashable, Sendable {
        package var ranges: [ByteRange]
        package var priority: LoadPriority
        /// Bytes of one request at most, so that a change of mind finds the connection free and warm.
        package var segment: Int64
        package init(ranges: [ByteRange], priority: LoadPriority, segment: Int64) {
            (self.ranges, self.priority, self.segment) = (ranges, priority, segment)
        }
    }
    /// A request under way: bytes up to `position` have come.
    package struct Running: Hashable, Sendable {
        package let id: Int
        package var position: Int64
        package var end: Int64
        package var priority: LoadPriority
        package init(id: Int, position: Int64, end: Int64, priority: LoadPriority) {
            (self.id, self.position, self.end, self.priority) = (id, position, end, priority)
        }
        var rest: ByteRange { position..<max(position, end) }
    }
    package struct Plan: Hashable, Sendable {
        package var starts: [Start] = []
        package var cancels: [Int] = []
        package var priorities: [Int: LoadPriority] = [:]
    }
    package struct Start: Hashable, Sendable {
        package let range: ByteRange
        package let priority: LoadPriority
    }
    /// Requests of one resource at a time: the place that is read, and one other (the index at the end, a seek).
    package static let maximumRequests = 2

    package static func plan(
        demands: [Demand], stored: ByteRangeSet, running: [Running], length: Int64?
    ) -> Plan {
        var plan = Plan()
        let resource = 0..<(length ?? .max)
        let demands = demands.sorted { $0.priority > $1.priority }
        // What nobody wants any more ends; what somebody wants has the priority of the most urgent of them.
        var kept: [Running] = []
        for request in running {
            let wanting = demands.filter { demand in demand.ranges.contains { $0.overlaps(request.rest) } }
            if let priority = wanting.map(\.priority).max() {
                kept.append(request)
                if priority != request.priority { plan.priorities[request.id] = priority }
            } else if !request.rest.isEmpty {
                plan.cancels.append(request.id)
            } else {
                kept.append(request)
            }
        }
        var covered = stored
        for request in kept { covered.insert(request.rest) }
        for demand in demands {
            for wanted in demand.ranges {
                // Who waits for a byte that is on its way waits; a second request would only take its bandwidth.
                guard let missing = stored.holes(in: wanted.clamped(to: resource)).first?.lowerBound,
                    let hole = covered.holes(in: wanted.clamped(to: resource)).first, hole.lowerBound == missing
                else { continue }
                if kept.count + plan.starts.count >= maximumRequests {
                    // A more urgent hole takes the place of a less urgent request, never of an equal one.
                    guard
                        let victim = kept.filter({ (plan.priorities[$0.id] ?? $0.priority) < demand.priority }).min(
                            by: {
                                (plan.priorities[$0.id] ?? $0.priority) < (plan.priorities[$1.id] ?? $1.priority)
                            })
                    else { return plan }
                    kept.removeAll { $0.id == victim.id }
                    plan.priorities[victim.id] = nil
                    plan.cancels.append(victim.id)
                }
                let part = ByteRange(offset: hole.lowerBound, saturatingLength: demand.segment).clamped(to: hole)
                plan.starts.append(Start(range: part, priority: demand.priority))
                covered.insert(part)
                break  // one new request a demand; the next one follows when this has come
            }
        }
        return plan
    }
}
