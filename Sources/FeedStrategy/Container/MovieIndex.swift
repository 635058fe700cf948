/// What the index of an MP4 (`moov`) says of where its samples lie: enough to fetch a first frame, or some seconds, and
/// no byte more. Broken indexes give less, never a trap: whoever decodes the file reports what is wrong with it.
package struct MovieIndex: Hashable, Sendable {
    private struct Sample: Hashable, Sendable {
        let time: Double
        let end: Int64
        let isKey: Bool
    }
    private struct Track: Hashable, Sendable {
        var isVideo = false
        var samples: [Sample] = []
    }
    /// Samples looked at of a track: five minutes of 60 frames a second, more than anybody fetches ahead.
    private static let mostSamples = 18_000
    /// Real files have a handful.
    private static let mostTracks = 8
    private var tracks: [Track] = []
    /// Seconds; `nil` when the index does not tell.
    package private(set) var duration: Double?

    /// - Parameter moov: The whole box, its header included.
    package init?(moov: ArraySlice<UInt8>) {
        guard moov.count >= 16 else { return nil }
        let header = BoxHeader(moov, at: 0)
        guard header.type == "moov", header.size >= header.headerSize, header.size <= moov.count else { return nil }
        let content = moov[(moov.startIndex + header.headerSize)..<(moov.startIndex + Int(header.size))]
        for (type, box) in Self.boxes(of: content) {
            switch type {
            case "mvhd": duration = Self.duration(mvhd: box)
            case "trak" where tracks.count < Self.mostTracks:
                if let track = Self.track(box) { tracks.append(track) }
            default: continue
            }
        }
        guard !tracks.isEmpty else { return nil }
    }

    /// Where the first frame of the video ends, or the first sample of a file without video; `nil` for an index without
    /// samples, as files in fragments have it.
    package var firstFrameEnd: Int64? {
        let track = tracks.first { $0.isVideo && !$0.samples.isEmpty } ?? tracks.first { !$0.samples.isEmpty }
        return (track?.samples.first(where: \.isKey) ?? track?.samples.first)?.end
    }

    /// Where the last sample ends that begins within the first `seconds`, of any track.
    package func end(ofFirst seconds: Double) -> Int64? {
        tracks.flatMap { $0.samples.prefix { $0.time < seconds } }.map(\.end).max()
    }

    // MARK: Boxes

    private static func boxes(of content: ArraySlice<UInt8>) -> [(String, ArraySlice<UInt8>)] {
        var found: [(String, ArraySlice<UInt8>)] = []
        var rest = content
        while rest.count >= 8 {
            let header = BoxHeader(rest, at: 0)
            let size = header.size == 0 ? Int64(rest.count) : header.size
            guard size >= header.headerSize, size <= rest.count else { break }
            let end = rest.startIndex + Int(size)
            found.append((header.type, rest[(rest.startIndex + header.headerSize)..<end]))
            rest = rest[end...]
        }
        return found
    }

    private static func find(_ path: [String], in content: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let first = path.first else { return content }
        for (type, box) in boxes(of: content) where type == first {
            if let found = find(Array(path.dropFirst()), in: box) { return found }
        }
        return nil
    }

    /// A number of 1 to 8 bytes; 0 where the box is too short.
    private static func number(_ box: ArraySlice<UInt8>, at offset: Int, bytes: Int = 4) -> Int64 {
        guard offset >= 0, offset + bytes <= box.count else { return 0 }
        return bigEndian(box[(box.startIndex + offset)..<(box.startIndex + offset + bytes)])
    }

    /// Time scale and duration of `mvhd` or `mdhd` (§8.2.2, §8.4.2).
    private static func times(_ box: ArraySlice<UInt8>) -> (scale: Int64, duration: Int64) {
        number(box, at: 0, bytes: 1) == 1
            ? (number(box, at: 20), number(box, at: 24, bytes: 8)) : (number(box, at: 12), number(box, at: 16))
    }
    private static func duration(mvhd box: ArraySlice<UInt8>) -> Double? {
        let (scale, duration) = times(box)
        // All ones stands for "unknown".
        guard scale > 0, duration > 0, duration != 0xFFFF_FFFF else { return nil }
        return Double(duration) / Double(scale)
    }

    private static func track(_ trak: ArraySlice<UInt8>) -> Track? {
        guard let media = find(["mdia"], in: trak), let header = find(["mdhd"], in: media),
            let handler = find(["hdlr"], in: media), handler.count >= 12,
            let table = find(["minf", "stbl"], in: media)
        else { return nil }
        var track = Track()
        let kind = String(decoding: handler[(handler.startIndex + 8)..<(handler.startIndex + 12)], as: UTF8.self)
        guard kind == "vide" || kind == "soun" else { return nil }
        track.isVideo = kind == "vide"
        let scale = times(header).scale
        if scale > 0 { track.samples = samples(table, scale: Double(scale)) }
        return track
    }

    /// The samples in the order of the file's table (§8.6, §8.7): sizes, laid into chunks.
    private static func samples(_ table: ArraySlice<UInt8>, scale: Double) -> [Sample] {
        let parts = Dictionary(boxes(of: table), uniquingKeysWith: { first, _ in first })
        guard let sizes = parts["stsz"], let runs = parts["stsc"], let times = parts["stts"] else { return [] }
        let isLong = parts["co64"] != nil
        guard let chunks = parts["co64"] ?? parts["stco"] else { return [] }
        func count(_ box: ArraySlice<UInt8>, at offset: Int = 4, entry: Int, from start: Int = 8) -> Int {
            min(Int(number(box, at: offset)), max(0, box.count - start) / entry)
        }
        let fixed = number(sizes, at: 4)
        let total = min(mostSamples, fixed > 0 ? Int(number(sizes, at: 8)) : count(sizes, at: 8, entry: 4, from: 12))
        let keys = parts["stss"].map { box in
            Set((0..<min(mostSamples, count(box, entry: 4))).map { number(box, at: 8 + $0 * 4) })
        }
        var (samples, time): ([Sample], Int64) = ([], 0)
        let (runCount, timeRuns) = (count(runs, entry: 12), count(times, entry: 8))
        var (timeRun, timeLeft) = (-1, Int64(0))
        var step: Int64 = 0
        var run = 0
        for chunk in 0..<count(chunks, entry: isLong ? 8 : 4) {
            while run + 1 < runCount, number(runs, at: 8 + (run + 1) * 12) <= chunk + 1 { run += 1 }
            var offset = number(chunks, at: 8 + chunk * (isLong ? 8 : 4), bytes: isLong ? 8 : 4)
            for _ in 0..<number(runs, at: 12 + run * 12) {
                guard samples.count < total, offset >= 0 else { return samples }
                while timeLeft == 0, timeRun + 1 < timeRuns {
                    timeRun += 1
                    (timeLeft, step) = (number(times, at: 8 + timeRun * 8), number(times, at: 12 + timeRun * 8))
                }
                let size = fixed > 0 ? fixed : number(sizes, at: 12 + samples.count * 4)
                let (end, overflow) = offset.addingReportingOverflow(size)
                guard !overflow else { return samples }
                samples.append(
                    Sample(
                        time: Double(time) / scale, end: end,
                        isKey: keys?.contains(Int64(samples.count + 1)) ?? true))
                offset = end
                time &+= step
                timeLeft = max(0, timeLeft - 1)
            }
        }
        return samples
    }
}
