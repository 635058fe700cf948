import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Playback
import Testing

/// What a matrix of two weights makes of limited or full YUV (ITU-R BT.601, BT.709, BT.2020 §4).
private func red(_ yuv: (Double, Double, Double), red: Double, blue: Double, isFull: Bool) -> [Double] {
    let (luma, chroma) = isFull ? (255.0, 255.0) : (219, 224)
    let y = (yuv.0 - (isFull ? 0 : 16)) / luma, u = (yuv.1 - 128) / chroma, v = (yuv.2 - 128) / chroma
    let r = y + 2 * (1 - red) * v, b = y + 2 * (1 - blue) * u
    let g = (y - red * r - blue * b) / (1 - red - blue)
    return [r, g, b].map { min(max($0, 0), 1) * 255 }
}

extension FFmpegSuites {
    @Suite("Pictures") struct PictureTests {
        /// The first frame of a clip that the `ffmpeg` command makes.
        private func frame(_ arguments: [String]) async throws -> VideoFrame {
            let path = FileManager.default.temporaryDirectory.path + "/ff-picture-\(UUID().uuidString).mp4"
            try ffmpeg(["-f", "lavfi", "-i"] + arguments + ["-frames:v", "2", "-preset", "veryfast", path])
            defer { try? FileManager.default.removeItem(atPath: path) }
            return try await frame(ofFile: path)
        }
        private func frame(ofFile path: String) async throws -> VideoFrame {
            var first: VideoFrame?
            try await withPage([], options: allFrames()) { page, _, _ in
                try await page.setSources([FeedEntry(try FileSource(path: path), id: "clip")])
                first = await (try page.play("clip")).frames.makeAsyncIterator().next()
            }
            return try #require(first)
        }

        @Test(
            "colours are those of the clip's matrix and range",
            arguments: [("smpte170m", 0.299, 0.114), ("bt709", 0.2126, 0.0722), ("bt2020nc", 0.2627, 0.0593)],
            [false, true])
        func colours(matrix: (name: String, red: Double, blue: Double), isFull: Bool) async throws {
            let frame = try await frame([
                "color=gray:size=64x64,format=yuv420p,lutyuv=y=120:u=90:v=160", "-c:v", "libx264", "-qp", "0",
                "-colorspace",
                matrix.name, "-color_range", isFull ? "pc" : "tv",
            ])
            let yuv = frame.packedBytes()
            #expect(yuv[0] == 120 && yuv[64 * 64] == 90 && yuv[64 * 64 * 5 / 4] == 160)
            #expect(frame.color.isFullRange == isFull)
            let wanted = red((120, 90, 160), red: matrix.red, blue: matrix.blue, isFull: isFull)
            for (format, order) in [(PixelFormat.rgba, [0, 1, 2]), (.bgra, [2, 1, 0])] {
                let pixels = try frame.converted(to: format).packedBytes()
                for (channel, value) in zip(order, wanted) {
                    #expect(abs(Double(pixels[(32 * 64 + 32) * 4 + channel]) - value) <= 3, "\(format) \(channel)")
                }
                #expect(pixels[3] == 255)
            }
            let semiplanar = try frame.converted(to: .nv12).packedBytes()
            #expect(semiplanar[0] == 120 && semiplanar[64 * 64] == 90 && semiplanar[64 * 64 + 1] == 160)
        }

        @Test(
            "a turned picture is the one that the ffmpeg command turns",
            arguments: [
                (0, true, "vflip"), (90, false, "transpose=clock"), (90, true, "vflip,transpose=clock"),
                (180, false, "hflip,vflip"), (180, true, "hflip"), (270, false, "transpose=cclock"),
                (270, true, "vflip,transpose=cclock"),
            ])
        func turned(rotation: Int, isFlipped: Bool, filters: String) async throws {
            let folder = try await Stage.shared.clips()
            let plain = try await frame(ofFile: folder + "/silent.mp4")
            let frame = VideoFrame(
                width: plain.width, height: plain.height, pixelFormat: plain.pixelFormat, color: plain.color,
                presentationTime: .zero, duration: .zero,
                orientation: Orientation(rotation: rotation, isFlipped: isFlipped),
                pixelAspect: PixelAspect(width: 2, height: 1), planes: plain.planes, storage: plain.storage)
            let upright = try frame.turnedUpright()
            let wanted = try ffmpeg([
                "-i", folder + "/silent.mp4", "-frames:v", "1", "-vf", filters, "-f", "rawvideo", "-",
            ])
            #expect(Data(upright.packedBytes()) == wanted)
            #expect(upright.orientation == .upright)
            #expect(upright.displaySize == frame.displaySize)
        }

        @Test("samples that are not square make a picture of another size on the screen") func aspect() async throws {
            let frame = try await frame(["testsrc=size=720x576,setsar=64/45", "-c:v", "libx264"])
            #expect(frame.pixelAspect == PixelAspect(width: 64, height: 45))
            #expect(frame.displaySize == (1024, 576))
        }

        @Test("HDR is told, and tone-mapped on request", arguments: [("smpte2084", true), ("arib-std-b67", false)])
        func hdr(transfer: String, isPQ: Bool) async throws {
            let frame = try await frame([
                "color=gray:size=64x64,format=yuv420p10le,lutyuv=y=\(isPQ ? 575 : 722):u=512:v=512", "-c:v", "libx264",
                "-color_trc", transfer, "-colorspace", "bt2020nc", "-color_primaries", "bt2020",
            ])
            #expect(frame.pixelFormat == .i420p10)
            #expect(frame.color.transfer == (isPQ ? .pq : .hlg) && frame.color.isHDR)
            let mapped = try frame.toneMapped()
            #expect(mapped.pixelFormat == .i420 && !mapped.color.isHDR && mapped.color.matrix == .bt709)
            // Graphics white (ITU-R BT.2408: 58 % of PQ, 75 % of HLG) is white, or nearly.
            #expect((180...235).contains(mapped.packedBytes()[0]), "\(mapped.packedBytes()[0])")
            let plain = try await self.frame(["testsrc=size=64x64", "-c:v", "libx264", "-pix_fmt", "yuv420p"])
            #expect(try plain.toneMapped().packedBytes() == plain.packedBytes())
        }

        @Test("a PNG shows the picture as it is seen") func png() async throws {
            let folder = try await Stage.shared.clips()
            let plain = try await frame(ofFile: folder + "/silent.mp4")
            let frame = VideoFrame(
                width: plain.width, height: plain.height, pixelFormat: plain.pixelFormat, color: plain.color,
                presentationTime: .zero, duration: .zero, orientation: Orientation(rotation: 90), planes: plain.planes,
                storage: plain.storage)
            let png = try frame.png()
            let path = FileManager.default.temporaryDirectory.path + "/ff-picture-\(UUID().uuidString).png"
            try Data(png).write(to: URL(filePath: path))
            defer { try? FileManager.default.removeItem(atPath: path) }
            let shown = try ffmpeg(["-i", path, "-f", "rawvideo", "-pix_fmt", "rgba", "-"])
            #expect(shown == Data(try frame.turnedUpright().converted(to: .rgba).packedBytes()))
        }
    }
}
