import Playback

/// The subtitles of a play: what was chosen, and the cues that are still to be shown.
struct SubtitleShow {
    enum Choice {
        case none
        /// A track of the clip, whose cues come as the clip is read.
        case track
        /// All cues of a file beside the clip.
        case file([SubtitleCue])
    }
    private var choice = Choice.none
    /// In the order of their times.
    private var waiting: [SubtitleCue] = []
    /// All since the last change of place: a line that is read twice is told once.
    private var seen: Set<SubtitleCue> = []
    /// What the track gave so far, by the media's own time: a seek reads from a key frame on, and what is said there may
    /// have begun before.
    private var read: [SubtitleCue] = []
    private static let mostRead = 2_000
    /// The begin of the pass for which the file's cues are waiting.
    private var filePass: Duration?

    var isOn: Bool { if case .none = choice { false } else { true } }
    /// When the next one is to be shown.
    var next: Duration? { waiting.first?.start }

    mutating func choose(_ choice: Choice) {
        self = SubtitleShow()
        self.choice = choice
    }

    /// The play goes to another place, in the first pass.
    mutating func moved(to place: Duration) {
        (waiting, seen, filePass) = ([], [], nil)
        add(read.filter { $0.end > place })
    }

    /// Adds what was read of the clip, and for a new pass of a loop the file's.
    ///
    /// - Parameters:
    ///   - position: Of the clock.
    ///   - pass: The begin of the pass in which that is.
    mutating func gather(_ cues: [SubtitleCue], at position: Duration, in pass: Duration) {
        switch choice {
        case .none: return
        case .track:
            guard !cues.isEmpty else { return }
            add(cues)
            read = (read + cues.map { $0.shifted(by: .zero - pass) }).suffix(Self.mostRead)
        case .file(let all):
            guard filePass != pass else { return }
            filePass = pass
            add(all.map { $0.shifted(by: pass) }.filter { $0.end > position })
        }
    }

    private mutating func add(_ cues: [SubtitleCue]) {
        let new = cues.filter { seen.insert($0).inserted }
        guard !new.isEmpty else { return }
        waiting = (waiting + new).sorted { ($0.start, $0.end) < ($1.start, $1.end) }
    }

    /// The cues that are due and not over.
    mutating func take(at position: Duration) -> [SubtitleCue] {
        let due = waiting.prefix { $0.start <= position }
        waiting.removeFirst(due.count)
        return due.filter { $0.end > position }
    }
}
