import Foundation

/// What one run of a script measured; the shape of the JSON that `--json` prints.
struct RunReport: Encodable, Sendable {
    struct Play: Encodable, Sendable {
        let page: String
        let entry: String
        let ttffMs: Double
        let phasesMs: [String: Double]
        let servedAs: String
        let preloadedBytes: Int64
        /// What network and decoder allow for a cold start of this clip on the connection that it had; `nil` for a clip
        /// of a server whose network is not known.
        let limitMs: Double?
        var stalls: Int
    }
    let name: String
    var ttffMs: Spread { Spread(plays.map(\.ttffMs)) }
    var stalls: Int { plays.reduce(0) { $0 + $1.stalls } }
    var bytesFetched: Int64 = 0
    var bytesNeverPlayed: Int64 = 0
    var plays: [Play] = []
    /// What went wrong, in words; empty when all went well.
    var problems: [String] = []

    private enum Key: String, CodingKey { case name, ttffMs, stalls, bytesFetched, bytesNeverPlayed, plays, problems }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(name, forKey: .name)
        try container.encode(ttffMs, forKey: .ttffMs)
        try container.encode(stalls, forKey: .stalls)
        try container.encode(bytesFetched, forKey: .bytesFetched)
        try container.encode(bytesNeverPlayed, forKey: .bytesNeverPlayed)
        try container.encode(plays, forKey: .plays)
        try container.encode(problems, forKey: .problems)
    }
}

struct Report: Encodable { let runs: [RunReport] }
