import EventLoop
import FeedVocabulary
import FirstFrame
import Foundation
import MediaCache

/// `firstframe cache …`
struct CacheCommand {
    let console: Console

    /// One clip, as `ls` and `info` print it.
    private struct Listing: Encodable {
        let key: String
        let storedBytes: Int64
        let length: Int64?
        let isComplete: Bool
        let contentType: String?
        let validator: String?
        let lastUsed: String
        let ranges: [[Int64]]

        init(_ record: CacheRecord) {
            (key, storedBytes, length) = (record.key.text, record.ranges.count, record.length)
            (isComplete, contentType, validator) = (record.isComplete, record.contentType, record.validator)
            ranges = record.ranges.ranges.map { [$0.lowerBound, $0.upperBound] }
            lastUsed = Date(timeIntervalSince1970: TimeInterval(record.lastUsedAt.secondsSince1970)).ISO8601Format()
        }
        var line: String {
            let share = length.map { "\(storedBytes * 100 / max(1, $0)) %" } ?? "?"
            return key.padding(toLength: max(34, key.count + 1), withPad: " ", startingAt: 0)
                + String(format: "%12lld %6@  ", storedBytes, share) + lastUsed + "  " + (contentType ?? "-")
        }
    }
    private struct Verdict: Encodable { let key: String, bytes: Int64, checkedBytes: Int64, lostBytes: Int64 }

    func run(_ arguments: Arguments) async throws -> Int32 {
        let words = arguments.values
        let counts = ["ls": 1...1, "info": 2...2, "verify": 1...1, "clear": 1...2, "export": 3...3]
        guard let action = words.first, let allowed = counts[action], allowed.contains(words.count) else {
            throw UsageError(text: "cache needs one of: ls, info KEY, verify, clear [KEY], export KEY FILE")
        }
        var configuration = RuntimeConfiguration()
        if let directory = arguments["cache"] { configuration.cacheDirectory = directory }
        configuration.cacheCapacity = .max  // looking must not evict
        guard FileManager.default.fileExists(atPath: configuration.cacheDirectory) else {
            throw UsageError(text: "there is no cache directory \(configuration.cacheDirectory); name one with --cache")
        }
        let loop = try LoopThread()
        var status: Int32 = 0
        do {
            var settings = configuration.cache
            (settings.maximumAge, settings.freeDiskGuard) = (.seconds(Int64.max / 2), 0)
            let cache = try await MediaCache.open(settings, on: loop, files: LoopFiles(loop: loop))
            do {
                status = try await carryOut(action, words.dropFirst().map { $0 }, arguments, cache)
            } catch {
                await cache.close()
                throw error
            }
            await cache.close()
        } catch {
            loop.stop()
            throw error
        }
        loop.stop()
        return status
    }

    private func carryOut(
        _ action: String, _ words: [String], _ arguments: Arguments, _ cache: MediaCache
    ) async throws -> Int32 {
        switch action {
        case "ls":
            let listings = await cache.records.map { Listing($0) }
            if console.isJSON {
                try console.json(listings)
            } else {
                for listing in listings { console.say(listing.line) }
            }
        case "info":
            let listing = Listing(try await record(words[0], cache))
            if console.isJSON {
                try console.json(listing)
            } else {
                console.say(
                    """
                    key         \(listing.key)
                    length      \(listing.length.map(String.init) ?? "unknown")
                    stored      \(listing.storedBytes)\(listing.isComplete ? " (whole)" : "")
                    type        \(listing.contentType ?? "unknown")
                    validator   \(listing.validator ?? "none")
                    last used   \(listing.lastUsed)
                    ranges      \(listing.ranges.map { "\($0[0])-\($0[1] - 1)" }.joined(separator: " "))
                    """)
            }
        case "verify": return try await verify(cache)
        case "clear":
            if let key = words.first {
                await cache.remove(try await record(key, cache).key)
            } else {
                await cache.removeAll(keepingMostRecent: Int(try arguments.number("keep", in: 0...1_000_000) ?? 0))
            }
        case _: try await cache.export(try await record(words[0], cache).key, to: words[1])
        }
        return 0
    }

    private func record(_ text: String, _ cache: MediaCache) async throws -> CacheRecord {
        let key: CacheKey
        do { key = try CacheKey(text) } catch { throw UsageError(text: "\(error)") }
        guard let record = await cache.record(of: key) else { throw CacheError.missing(key) }
        return record
    }

    private func verify(_ cache: MediaCache) async throws -> Int32 {
        var verdicts: [Verdict] = []
        for record in await cache.records {
            let finding = try await cache.verify(record.key)
            verdicts.append(
                Verdict(
                    key: record.key.text, bytes: finding.bytes, checkedBytes: finding.checked, lostBytes: finding.lost))
        }
        let lost = verdicts.filter { $0.lostBytes > 0 }
        if console.isJSON { try console.json(verdicts) }
        for verdict in lost {
            console.complain("\(verdict.key): \(verdict.lostBytes) bytes were wrong and are dropped")
        }
        if !console.isJSON {
            let checked = verdicts.reduce(0) { $0 + $1.checkedBytes }
            console.say("\(verdicts.count) clips, \(checked) bytes compared with checksums, \(lost.count) with faults")
        }
        return lost.isEmpty ? 0 : 1
    }
}
