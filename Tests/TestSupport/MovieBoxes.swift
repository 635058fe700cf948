/// A box of an MP4 file (ISO/IEC 14496-12 §4.2), by hand.
package func box(_ type: String, _ content: [UInt8]...) -> [UInt8] {
    let content = content.flatMap { $0 }
    return number(content.count + 8) + Array(type.utf8) + content
}

/// A number as such boxes hold it.
package func number(_ value: Int, bytes: Int = 4) -> [UInt8] {
    (0..<bytes).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
}
