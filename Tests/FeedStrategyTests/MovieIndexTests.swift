import EventLoop
import FeedStrategy
import FeedVocabulary
import TestSupport
import Testing

private func table(_ values: [Int]) -> [UInt8] { values.flatMap { number($0) } }

private func track(
    _ kind: String, scale: Int = 1000, sizes: [Int], chunks: [Int], perChunk: Int, step: Int, keys: [Int]? = nil
) -> [UInt8] {
    var tables =
        box("stts", table([0, 1, sizes.count, step])) + box("stsc", table([0, 1, 1, perChunk, 1]))
        + box("stsz", table([0, 0, sizes.count] + sizes)) + box("stco", table([0, chunks.count] + chunks))
    if let keys { tables += box("stss", table([0, keys.count] + keys)) }
    return box(
        "trak",
        box(
            "mdia", box("mdhd", table([0, 0, 0, scale, 0, 0])), box("hdlr", table([0, 0]) + Array(kind.utf8) + [0]),
            box("minf", box("stbl", tables))))
}
private let movie = box(
    "moov", box("mvhd", table([0, 0, 0, 600, 6000, 0])),
    track("soun", sizes: [50, 50, 50, 50], chunks: [1_000, 9_000], perChunk: 2, step: 1_000),
    track("vide", sizes: [3_000, 100, 200, 300], chunks: [1_100, 9_100], perChunk: 2, step: 1_000, keys: [1, 3]))

@Suite("Movie index") struct MovieIndexTests {
    @Test("where the first frame and the first seconds end, and how long it is") func places() throws {
        let index = try #require(MovieIndex(moov: movie[...]))
        #expect(index.duration == 10)
        #expect(index.firstFrameEnd == 4_100)
        #expect(index.end(ofFirst: 1) == 4_100)
        #expect(index.end(ofFirst: 1.5) == 4_200)
        #expect(index.end(ofFirst: 2.5) == 9_300)
        #expect(index.end(ofFirst: 100) == 9_600)
    }
    @Test("the first frame is the first key frame") func key() throws {
        let late = box(
            "moov",
            track("vide", sizes: [10, 20, 30], chunks: [100], perChunk: 3, step: 1, keys: [2]))
        let index = try #require(MovieIndex(moov: late[...]))
        #expect(index.firstFrameEnd == 130)
        #expect(index.duration == nil)
    }
    @Test("sound alone has a first sample") func sound() throws {
        let index = try #require(
            MovieIndex(moov: box("moov", track("soun", sizes: [7, 7], chunks: [50], perChunk: 2, step: 1))[...]))
        #expect(index.firstFrameEnd == 57)
    }
    @Test("MEDIA-7: thousands of tracks of billions of samples take neither memory nor time") func many() {
        let tables =
            box("stts", table([0, 0])) + box("stsc", table([0, 1, 1, 0xFFFF_FFFF, 1]))
            + box("stsz", table([0, 1, 0xFFFF_FFFF])) + box("stco", table([0, 1, 0]))
        let track = box(
            "trak",
            box(
                "mdia", box("mdhd", table([0, 0, 0, 1, 0, 0])), box("hdlr", table([0, 0]) + Array("vide".utf8) + [0]),
                box("minf", box("stbl", tables))))
        let moov = box("moov", [UInt8]((0..<3_000).flatMap { _ in track }))
        #expect(MovieIndex(moov: moov[...])?.end(ofFirst: 1) == 18_000, "as many as are looked at, of as few tracks")
    }
    @Test("MEDIA-7: broken and hostile indexes give less, and never trap", arguments: UInt64(0)..<400)
    func hostile(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var bytes = movie
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            let place = Int.random(in: 8..<bytes.count, using: &random)
            bytes[place] = [0, 0xFF, 0x7F, 0x80, UInt8.random(in: 0...255, using: &random)]
                .randomElement(using: &random)!
        }
        if seed % 3 == 0 { bytes.removeLast(Int.random(in: 0..<bytes.count - 8, using: &random)) }
        if let index = MovieIndex(moov: bytes[...]) {
            _ = (index.firstFrameEnd, index.end(ofFirst: 3), index.duration)
        }
        #expect(MovieIndex(moov: bytes.prefix(12)) == nil)
    }
}

@Suite("Container head") struct ContainerHeadTests {
    private func head(_ type: String, _ size: Int) -> [UInt8] { number(size) + Array(type.utf8) }
    private let rest = [UInt8](repeating: 0, count: 32)

    @Test("the index is found before or after the media") func places() {
        let first = head("ftyp", 16) + [UInt8](repeating: 0, count: 8) + head("moov", 5_000) + rest
        #expect(ContainerHead(first) == .indexFirst(16..<5_016))
        let last = head("ftyp", 16) + [UInt8](repeating: 0, count: 8) + head("mdat", 9_000) + rest
        #expect(ContainerHead(last) == .indexLast(offset: 9_016))
        #expect(ContainerHead(Array(first.prefix(20))) == .needs(bytes: 32))
    }
    @Test("hostile and foreign bytes have no index") func hostile() {
        #expect(ContainerHead([UInt8](repeating: 0xff, count: 64)) == .noIndex)
        #expect(ContainerHead(head("ftyp", 0) + rest + rest) == .noIndex)
        let huge = number(1) + Array("mdat".utf8) + [UInt8](repeating: 0xff, count: 8) + rest
        #expect(ContainerHead(huge) == .noIndex)
        let endless = number(1) + Array("free".utf8) + number(.max, bytes: 8) + rest
        #expect(ContainerHead(endless) == .noIndex)
        let nearly = number(1) + Array("free".utf8) + number(.max - 20, bytes: 8) + rest
        #expect(ContainerHead(nearly) == .needs(bytes: .max - 4))
    }
}
