import EventLoop
import Glibc

/// Clips with several versions each, whose bytes are known: what may be on disk and what may be read.
package struct ClipLibrary: Sendable {
    package struct Clip: Sendable {
        package let url: String
        package let key: String
        /// Of different lengths, as files that were encoded again are.
        package let versions: [[UInt8]]
        package func validator(_ version: Int) -> String { "\"\(key)-\(version)\"" }

        /// Whether a version has these bytes there.
        package func has(_ bytes: ArraySlice<UInt8>, at offset: Int64, version: Int) -> Bool {
            let start = Int(offset)
            guard start + bytes.count <= versions[version].count else { return false }
            return bytes.withUnsafeBytes { part in
                versions[version].withUnsafeBytes { whole in
                    part.isEmpty || memcmp(part.baseAddress!, whole.baseAddress! + start, part.count) == 0
                }
            }
        }
    }
    package let clips: [Clip]
    private let byURL: [String: Clip]

    private static let versionCount = 3
    /// From a clip that is less than one piece to one that is larger than some caches of the simulation.
    private static let sizes = [
        3_000, 20_000, 40_000, 65_000, 80_000, 120_000, 150_000, 200_000, 260_000, 300_000, 420_000, 600_000,
    ]
    /// Made once: a simulation changes nothing of it.
    package static let shared = ClipLibrary()

    private init() {
        clips = Self.sizes.enumerated().map { number, size in
            Clip(
                url: "http://simulated.test/clip\(number).mp4", key: "clip\(number)",
                versions: (0..<Self.versionCount).map { version in
                    Self.bytes(count: size + version * 1_001, seed: UInt64(number * Self.versionCount + version))
                })
        }
        byURL = Dictionary(uniqueKeysWithValues: clips.map { ($0.url, $0) })
    }

    package func clip(at url: String) -> Clip? { byURL[url] }

    private static func bytes(count: Int, seed: UInt64) -> [UInt8] {
        var random = SplitMix64(seed: seed)
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            for index in 0..<count {
                buffer.initializeElement(at: index, to: UInt8(truncatingIfNeeded: random.next() >> 32))
            }
            initialized = count
        }
    }
}
