internal import CFFmpeg

/// Packets of one track that were read but not yet decoded.
struct PacketQueue: ~Copyable {
    private var packets: [UnsafeMutablePointer<AVPacket>] = []
    private var head = 0
    private(set) var bytes = 0

    deinit {
        for packet in packets[head...] {
            var packet: UnsafeMutablePointer<AVPacket>? = packet
            av_packet_free(&packet)
        }
    }

    var isEmpty: Bool { head == packets.count }
    var first: UnsafeMutablePointer<AVPacket>? { isEmpty ? nil : packets[head] }
    subscript(index: Int) -> UnsafeMutablePointer<AVPacket> { packets[head + index] }
    var count: Int { packets.count - head }

    /// Takes over the content of `packet`.
    mutating func append(moving packet: UnsafeMutablePointer<AVPacket>) {
        guard let own = av_packet_alloc() else { return av_packet_unref(packet) }
        av_packet_move_ref(own, packet)
        bytes += Int(own.pointee.size)
        packets.append(own)
    }

    mutating func removeFirst() {
        var packet: UnsafeMutablePointer<AVPacket>? = packets[head]
        bytes -= Int(packet?.pointee.size ?? 0)
        av_packet_free(&packet)
        head += 1
        if head > 64 {
            packets.removeFirst(head)
            head = 0
        }
    }
}

/// One packet, to be filled again and again; freed with its owner, also when that could not be made.
struct ReusedPacket: ~Copyable {
    let pointer = av_packet_alloc()

    deinit {
        var pointer = pointer
        av_packet_free(&pointer)
    }
}
