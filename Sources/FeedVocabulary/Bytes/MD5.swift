/// The MD5 digest of RFC 1321, used to name things, never to protect them.
///
/// Written here because this floor imports nothing and neither Swift nor Foundation on Linux has one.
package struct MD5: Sendable {
    /// Per-round left rotations (RFC 1321 §3.4), four a round.
    private static let rotations: [UInt32] = [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21]
    /// `floor(2³² × |sin(i + 1)|)`, the table T of RFC 1321 §3.4.
    private static let sines: [UInt32] = [
        0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
        0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
        0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
        0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
        0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
        0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
        0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
        0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
    ]

    private var state: (UInt32, UInt32, UInt32, UInt32) = (0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476)
    private var length: UInt64 = 0
    private var rest: [UInt8] = []  // less than one block

    package init() {}

    /// The digest of `bytes` as 32 lower-case hexadecimal digits.
    package static func hexDigest(of bytes: some Collection<UInt8>) -> String {
        var digest = MD5()
        digest.update(Array(bytes))
        return digest.hexDigest()
    }

    /// Takes the next bytes of the message in.
    package mutating func update(_ bytes: [UInt8]) {
        length &+= UInt64(bytes.count)
        let message = rest.isEmpty ? bytes : rest + bytes
        let whole = message.count / 64 * 64
        message.withUnsafeBytes { message in
            for block in stride(from: 0, to: whole, by: 64) { mix(message, block) }
        }
        rest = Array(message[whole...])
    }

    /// The digest of all bytes so far as 32 lower-case hexadecimal digits.
    package func hexDigest() -> String {
        var last = self
        let bitCount = length &* 8
        var padding: [UInt8] = [0x80]
        while (rest.count + padding.count) % 64 != 56 { padding.append(0) }
        for shift in stride(from: 0, to: 64, by: 8) { padding.append(UInt8(truncatingIfNeeded: bitCount >> shift)) }
        last.update(padding)
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for word in [last.state.0, last.state.1, last.state.2, last.state.3] {
            for shift in stride(from: UInt32(0), to: 32, by: 8) {
                let byte = Int(word >> shift & 0xff)
                text += [digits[byte >> 4], digits[byte & 15]]
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private mutating func mix(_ message: UnsafeRawBufferPointer, _ block: Int) {
        var (a, b, c, d) = state
        for step in 0..<64 {
            let (mixed, word) =
                switch step / 16 {
                case 0: ((b & c) | (~b & d), step)
                case 1: ((d & b) | (~d & c), (5 * step + 1) % 16)
                case 2: (b ^ c ^ d, (3 * step + 5) % 16)
                default: (c ^ (b | ~d), (7 * step) % 16)
                }
            let value = UInt32(littleEndian: message.loadUnaligned(fromByteOffset: block + word * 4, as: UInt32.self))
            let sum = a &+ mixed &+ Self.sines[step] &+ value
            let rotation = Self.rotations[step / 16 * 4 + step % 4]
            (a, d, c, b) = (d, c, b, b &+ (sum << rotation | sum >> (32 - rotation)))
        }
        state = (state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d)
    }
}
