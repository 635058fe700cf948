import EventLoop
package import FirstFrame
import MediaCache

/// A whole runtime on a simulated loop, network, disk and engines; a pure function of its seed.
package struct SimulatedWorld: Sendable {
    package let loop: SimulatedLoop
    package let network: SimulatedNetwork
    package let disk: SimulatedDisk
    package let engines: SimulatedEngines
    package let runtime: FeedRuntime

    package init(
        seed: UInt64, roundTrip: Duration = .milliseconds(40), bytesPerSecond: Int = 1_000_000,
        openTime: Duration = .milliseconds(10), engines weather: EngineWeather? = nil, engineLimit: Int = 3,
        configure: (inout RuntimeConfiguration) -> Void = { _ in }
    ) throws {
        let loop = SimulatedLoop(seed: seed)
        let disk = SimulatedDisk(loop: loop)
        self.loop = loop
        self.disk = disk
        network = SimulatedNetwork(loop: loop, roundTrip: roundTrip, bytesPerSecond: bytesPerSecond)
        engines = weather.map { SimulatedEngines($0, seed: seed) } ?? SimulatedEngines(openTime: openTime)
        let opened = try loop.run {
            try await MediaCache.open(
                CacheConfiguration(directory: "/cache"), on: loop, files: disk, index: .memory(nil))
        }
        guard let cache = opened else { preconditionFailure("opening an empty cache hangs") }
        var configuration = RuntimeConfiguration()
        configuration.engineLimit = engineLimit
        configure(&configuration)
        runtime = FeedRuntime(
            loop: loop, transport: network, cache: cache, engines: engines, configuration: configuration)
    }

    /// Serves clips of `bytes` bytes each, and gives their entries.
    package func serveClips(_ count: Int, bytes: Int = 1_000_000) throws -> [FeedEntry] {
        var entries: [FeedEntry] = []
        for number in 0..<count {
            let url = "http://simulated.test/clip\(number).mp4"
            let content = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: bytes)
            loop.spawn { [network] in await network.serve(url, .init(bytes: content, validator: "\"v1-\(number)\"")) }
            entries.append(FeedEntry(try URLSource(url: url, cacheKey: "clip\(number)"), id: .init("\(number)")))
        }
        loop.runUntilIdle()
        return entries
    }
}
