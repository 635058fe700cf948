import EventLoop
import FeedVocabulary
import FirstFrame
import Foundation
import HTTPTransport
import MediaCache
import ResourceLoading

/// `firstframe fetch URL`
struct FetchCommand {
    let console: Console

    private struct Summary: Encodable {
        let url: String
        let bytes: Int64
        /// Bytes of them that came over the network, the rest was there.
        let fetchedBytes: Int64
        let seconds: Double
    }
    /// What to take of the resource.
    private enum Part {
        case all
        case from(Int64, to: Int64)
        case last(Int64)
    }

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard arguments.values.count == 1, let url = arguments.values.first else {
            throw UsageError(text: "fetch needs one URL")
        }
        let part = try Self.part(arguments["range"])
        if let output = arguments["output"] { try Self.checkFolder(of: output) }
        let resource = try Self.resource(url, arguments)
        var configuration = RuntimeConfiguration()
        configuration.certificateAuthorityFile = arguments["cacert"]
        // Beside the output while it grows, so that a killed fetch goes on where it ended, and its bytes become the
        // output by a change of name.
        let temporary: String? =
            if arguments["cache"] != nil { nil } else if let output = arguments["output"] {
                output + ".firstframe"
            } else {
                FileManager.default.temporaryDirectory.appending(path: "firstframe-\(UUID().uuidString)").path()
            }
        var settings = configuration.cache
        settings.directory = temporary ?? arguments["cache"] ?? configuration.cacheDirectory
        if temporary != nil { settings.capacity = .max }
        let loop = try LoopThread()
        let client = HTTPClient(loop: loop, configuration: configuration.http)
        var outcome: Result<Summary, any Error>
        var isNeeded = true
        do {
            let cache = try await MediaCache.open(settings, on: loop, files: LoopFiles(loop: loop, writesOnLoop: true))
            let loaders = ResourceLoaders(on: loop, cache: cache, transport: client)
            let begin = ContinuousClock.now
            do {
                try await Self.logIn(arguments["user"], url, loaders)
                let showsProgress = !console.isJSON && (arguments.has("progress") || isatty(2) == 1)
                let bytes = try await fetch(
                    resource, part, arguments["output"], loaders, cache, moves: temporary != nil, showsProgress)
                isNeeded = false
                let fetched = await loaders.traffic.bytesFetched
                outcome = .success(
                    Summary(
                        url: WebOrigin.redacted(url), bytes: bytes, fetchedBytes: fetched,
                        seconds: begin.duration(to: .now).seconds))
            } catch {
                outcome = .failure(error)
            }
            await loaders.shutdown()
            if await cache.records.isEmpty { isNeeded = false }
            await cache.close()
        } catch {
            outcome = .failure(error)
        }
        await client.shutdown()
        loop.stop()
        // What has come stays for the next try, when there is a file that it belongs to.
        if let temporary, !isNeeded || arguments["output"] == nil {
            try? FileManager.default.removeItem(atPath: temporary)
        }
        let summary = try outcome.get()
        if console.isJSON, arguments["output"] != nil { try console.json(summary) }
        return 0
    }

    private static func checkFolder(of output: String) throws(UsageError) {
        let folder = URL(filePath: output).deletingLastPathComponent().path(percentEncoded: false)
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder), isFolder.boolValue else {
            throw UsageError(text: "there is no folder \(folder) to write to")
        }
    }

    private static func part(_ text: String?) throws(UsageError) -> Part {
        guard let text else { return .all }
        let sides = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        if sides.count == 2 {
            let (first, last) = (Int64(sides[0]), Int64(sides[1]))
            if let first, let last, first >= 0, last >= first, last < .max { return .from(first, to: last + 1) }
            if let first, first >= 0, sides[1].isEmpty { return .from(first, to: .max) }
            if let last, last > 0, sides[0].isEmpty { return .last(last) }
        }
        throw UsageError(text: "--range \(text): write A-B, A- or -N, with whole numbers and A not above B")
    }

    private static func resource(_ url: String, _ arguments: Arguments) throws(UsageError) -> Resource {
        var headers: [String: String] = [:]
        for field in arguments.all("header") {
            let sides = field.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2 else { throw UsageError(text: "a header is written 'NAME: VALUE'") }
            headers[String(sides[0])] = sides[1].trimmingCharacters(in: .whitespaces)
        }
        do throws(SourceError) {
            var resource = try URLSource(url: url, headers: headers).resource
            resource.expectsMedia = false
            return resource
        } catch {
            throw UsageError(text: "\(WebOrigin.redacted(url)): \(error)")
        }
    }

    private static func logIn(_ user: String?, _ url: String, _ loaders: ResourceLoaders) async throws {
        guard let user else { return }
        let sides = user.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard sides.count == 2 else { throw UsageError(text: "--user is written USER:PASSWORD") }
        let credential = Credential.login(user: String(sides[0]), password: String(sides[1]))
        await loaders.setCredentials(credential, for: try WebOrigin(url: url), identity: String(sides[0]))
    }

    /// - Returns: Bytes that were written.
    private func fetch(
        _ resource: Resource, _ part: Part, _ output: String?, _ loaders: ResourceLoaders, _ cache: MediaCache,
        moves: Bool, _ showsProgress: Bool
    ) async throws -> Int64 {
        // What goes to a reader is read in order, a little ahead of it; a file is fetched in one request.
        let reader = try await loaders.open(resource, priority: .current, readAhead: output == nil ? 4 << 20 : 0)
        let progress = showsProgress ? Task { await show(reader) } : nil
        do {
            let range: ByteRange
            switch part {
            case .all: range = 0..<Int64.max
            case .from(let first, let end): range = first..<end
            case .last(let count):
                guard let length = try await reader.contentInformation().length else {
                    throw LoadError.unusableAnswer(
                        reason: "the server does not tell the length, so the last bytes can't be named",
                        url: WebOrigin.redacted(resource.urls[0].url))
                }
                range = max(0, length - count)..<length
            }
            let written: Int64
            if let output, case .all = part {
                await reader.want([range])
                try await reader.wait(for: range)
                written = reader.length ?? 0
                await reader.close()
                try await cache.export(await loaders.storageKey(of: resource), to: output, moving: moves)
            } else {
                written = try await copy(reader, range, to: output)
            }
            progress?.cancel()
            await progress?.value
            await reader.close()
            return written
        } catch {
            progress?.cancel()
            await progress?.value
            await reader.close()
            throw error
        }
    }

    private func copy(_ reader: ByteReader, _ range: ByteRange, to output: String?) async throws -> Int64 {
        var file: FileHandle?
        if let output {
            guard FileManager.default.createFile(atPath: output, contents: nil) else {
                throw UsageError(text: "\(output) can't be written")
            }
            file = try FileHandle(forWritingTo: URL(filePath: output))
        }
        var position = range.lowerBound
        while position < range.upperBound {
            let piece = try await reader.read(at: position, count: Int(min(256 * 1024, range.upperBound - position)))
            if piece.isEmpty { break }
            position += Int64(piece.count)
            if let file { try file.write(contentsOf: piece) } else if !console.output(piece) { break }
        }
        try file?.close()
        return position - range.lowerBound
    }

    /// One line, twice a second, until it is cancelled.
    private func show(_ reader: ByteReader) async {
        let begin = ContinuousClock.now
        let before = reader.available(in: 0..<Int64.max)
        while true {
            let isOver = (try? await Task.sleep(for: .milliseconds(500))) == nil
            let stored = reader.available(in: 0..<Int64.max)
            let speed = Double(stored - before) / max(0.001, begin.duration(to: .now).seconds)
            var line = String(format: "%.1f MB", Double(stored) / 1_048_576)
            if let length = reader.length {
                line += String(
                    format: " of %.1f MB, %lld %%", Double(length) / 1_048_576, stored * 100 / max(1, length))
            }
            line += String(format: ", %.1f MB/s", speed / 1_048_576)
            if let length = reader.length, speed > 0, stored < length {
                line += String(format: ", %.0f s left", Double(length - stored) / speed)
            }
            console.progress(line + (isOver ? "\n" : ""))
            if isOver { return }
        }
    }
}
