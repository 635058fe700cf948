internal import CFFmpeg
import Glibc
import ResourceLoading

/// Decrypts a file of AES-128 in CBC mode with PKCS#7 padding (RFC 8216 §4.3.2.4), from any block on. Decode thread only.
final class CipherReader {
    private static let block = 16
    private static let mostBlocks = 2_048
    private let reader: ByteReader
    private let cipher: OpaquePointer
    private let iv: [UInt8]

    /// `nil` for a key or a start that are no 16 bytes.
    init?(_ reader: ByteReader, key: [UInt8], iv: [UInt8]) {
        guard key.count == Self.block, iv.count == Self.block, let cipher = av_aes_alloc() else { return nil }
        guard av_aes_init(cipher, key, 128, 1) >= 0 else {
            av_free(UnsafeMutableRawPointer(cipher))
            return nil
        }
        (self.reader, self.cipher, self.iv) = (reader, cipher, iv)
    }
    deinit { av_free(UnsafeMutableRawPointer(cipher)) }

    /// Unknown until the end has been decrypted.
    private(set) var length: Int64?

    func readBlocking(at offset: Int64, into target: UnsafeMutableRawBufferPointer) throws(LoadError) -> Int {
        if let length, offset >= length { return 0 }
        let start = offset / Int64(Self.block) * Int64(Self.block)
        let count = min(target.count / Self.block + 2, Self.mostBlocks) * Self.block
        // One block more than is wanted, so that the last one is known by its being the last.
        let before = start == 0 ? iv : try reader.readAllBlocking(at: start - Int64(Self.block), count: Self.block)
        var bytes = try reader.readAllBlocking(at: start, count: count)
        bytes.removeLast(bytes.count % Self.block)  // a truncated file ends at its last whole block
        guard !bytes.isEmpty, before.count == Self.block else { return 0 }
        let isLast = bytes.count < count
        var chain = before
        var plain = [UInt8](repeating: 0, count: bytes.count)
        av_aes_crypt(cipher, &plain, bytes, Int32(bytes.count / Self.block), &chain, 1)
        if isLast {
            if let padding = plain.last, (1...Self.block).contains(Int(padding)) { plain.removeLast(Int(padding)) }
            length = start + Int64(plain.count)
        } else {
            plain.removeLast(Self.block)
        }
        let wanted = plain.dropFirst(Int(offset - start)).prefix(target.count)
        target.copyBytes(from: wanted)
        return wanted.count
    }
}
