import FeedStrategy
import HTTPTransport
import ResourceLoading

/// The file that is played for a source.
struct ResolvedFile: Sendable {
    var resource: Resource
    /// For error texts, without secrets.
    let name: String
    var vid: String?
    /// What the service told of it.
    var variant: VidMedia.Variant?
    /// The resolution that was asked for, when another had to be taken.
    var fallsBackFrom: Resolution?
    var posterURL: String?
}

extension FeedRuntime {
    /// Turns a source into a file; asks the service for an id that it has not told yet.
    ///
    /// - Throws: ``VidError``, whatever the host's resolver throws, or `CancellationError`.
    func resolve(_ source: MediaSource, isUrgent: Bool) async throws -> ResolvedFile {
        guard case .vid(let vidSource) = source else {
            guard let resource = source.resource else { preconditionFailure("\(source) has no resource") }
            return ResolvedFile(resource: resource, name: source.name, vid: source.vid)
        }
        let throughput = await loaders.throughput
        let (variant, media) = try await vids.variant(
            of: vidSource, isUrgent: isUrgent, throughput: throughput, isMetered: await loaders.network == .metered)
        var resource = Resource(key: variant.cacheKey(of: vidSource.vid), urls: variant.urls)
        (resource.length, resource.md5) = (variant.length, variant.md5)
        resource.refresher = URLRefresher { [vids] _ in
            await vids.forget(vidSource)
            let media = try await vids.media(of: vidSource, isUrgent: true)
            return media.variants.first { $0.isSame(as: variant) }?.urls ?? []
        }
        var file = ResolvedFile(resource: resource, name: source.name, vid: vidSource.vid)
        (file.variant, file.posterURL) = (variant, media.posterURL)
        if let asked = vidSource.resolution, asked != variant.resolution { file.fallsBackFrom = asked }
        return file
    }
}
