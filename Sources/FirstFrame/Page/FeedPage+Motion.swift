import EventLoop
import FeedStrategy
public import FeedVocabulary
public import Playback
import ResourceLoading

extension FeedPage {
    // MARK: What the viewer does without playing

    /// Says which entry is in view of a viewer who scrolls and plays nothing: heads are preloaded on both sides of it,
    /// until an entry is played. `nil` ends that.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` or ``FeedError/unknownEntry(_:)``.
    public func browse(at entry: EntryID?) throws(FeedError) {
        if let entry { try requireEntry(entry, for: "browse") }
        planner?.browsed = entry
        replan()
    }

    /// Says that something lies above the page and will go away again: what was fetched and pre-rendered stays, nothing
    /// more is begun. `nil` when it has gone; a play ends it too.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` on a page that is not on top.
    public func setOverlay(_ overlay: Overlay?) async throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.requireSources(for: "setOverlay") }
        let before = self.overlay
        self.overlay = overlay
        replan()
        if let clip = shown, before != overlay { await followOverlay(clip) }
    }

    /// What plays stands still or goes on, as the newest call says: another one may come while the engine is told.
    func followOverlay(_ clip: OpenedClip) async {
        var told: Overlay??
        while shows(clip), told != .some(overlay) {
            told = overlay
            if overlay == .standingStill { await setSilent(clip.engine) } else { await setHeard(clip.engine) }
        }
    }

    // MARK: Pictures

    /// A picture to show until the first frame: the entry's cover, or else the clip's own first frame that is not black.
    ///
    /// A frame that a spare engine holds is taken from there; a clip's own picture is made without an engine.
    ///
    /// - Parameter format: What it is converted to; `nil` leaves it as decoded.
    /// - Throws: ``FeedError/unknownEntry(_:)``, ``LoadError``, ``PlaybackError``, ``VidError``, or `CancellationError`.
    public func coverImage(for entry: EntryID, format: PixelFormat? = nil) async throws -> VideoFrame {
        guard let source = sources[entry] else { throw FeedError.unknownEntry(entry) }
        let cover = extras[entry]?.cover
        if cover == nil, let frame = await preRenderedFrame(for: entry), format == nil || frame.pixelFormat == format {
            return frame
        }
        var item = FeedEntry(source, id: entry)
        item.cover = cover
        return try await runtime.coverImage(of: item, format: format)
    }

    /// The first frame that a spare engine holds of an entry, which stays there: to be shown while a scroll goes on.
    public func preRenderedFrame(for entry: EntryID) async -> VideoFrame? {
        await (spares[entry]?.clip ?? taken[entry])?.engine.heldFrame()
    }
}

extension FeedRuntime {
    /// A picture that stands for an entry: its cover, its service's poster, or the clip's own first frame that is not
    /// black, whichever can be had first. All of it goes through loader and cache. Any thread.
    ///
    /// - Throws: ``LoadError``, ``PlaybackError``, ``VidError``, or `CancellationError`: what the clip itself failed with.
    public func coverImage(of entry: FeedEntry, format: PixelFormat? = nil) async throws -> VideoFrame {
        if let cover = entry.cover, let picture = try await picture(cover.resource, cover.name, format) {
            return picture
        }
        let file = try await resolve(entry.source, isUrgent: false)
        if let poster = file.posterURL, let source = try? URLSource(url: poster),
            let picture = try await picture(source.resource, source.name, format)
        {
            return picture
        }
        return try await still(file.resource, file.name, format)
    }

    /// `nil` for a picture that can't be had: the clip itself is then the next to ask.
    private func picture(_ resource: Resource, _ name: String, _ format: PixelFormat?) async throws -> VideoFrame? {
        do { return try await still(resource, name, format) } catch is CancellationError {
            throw CancellationError()
        } catch { return nil }
    }

    private func still(_ resource: Resource, _ name: String, _ format: PixelFormat?) async throws -> VideoFrame {
        let reader = try await loaders.open(resource, priority: .current, readAhead: 0)
        do {
            let frame = try await stills.still(of: MediaInput(reader: reader, name: name), format: format)
            await reader.close()
            return frame
        } catch {
            await reader.close()
            try Task.checkCancellation()
            throw error
        }
    }
}
