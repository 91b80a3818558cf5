namespace WitRpc.Native;

/// <summary>Makes servers.</summary>
public static class WitServerBuilder
{
    /// <summary>Makes a server. It listens once it is started: see <see cref="WitServer.StartAsync"/>.</summary>
    /// <param name="configure">Sets the options; at least where to listen and what to serve.</param>
    /// <returns>The server, to be disposed.</returns>
    public static WitServer Build(Action<WitServerBuilderOptions> configure)
    {
        ArgumentNullException.ThrowIfNull(configure);
        var options = new WitServerBuilderOptions();
        configure(options);
        return new WitServer(options);
    }
}
