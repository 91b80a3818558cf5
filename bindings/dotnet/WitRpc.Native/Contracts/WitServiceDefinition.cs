using System.ComponentModel;

namespace WitRpc.Native;

/// <summary>How a server serves an implementation of an interface. Made by generated code.</summary>
/// <typeparam name="T">The interface.</typeparam>
/// <param name="contractJson">The contract in its exchange form, with the types that events and methods name.</param>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitServiceDefinition<T>(string contractJson) where T : class
{
    internal string ContractJson { get; } = contractJson;

    internal List<(string Line, Func<T, WitServerCall, ValueTask> Run)> Methods { get; } = [];

    internal List<Func<T, WitEventRaiser, Action>> Events { get; } = [];

    /// <summary>Adds a method.</summary>
    /// <param name="line">Its line.</param>
    /// <param name="run">Reads the arguments, calls it, and writes the result.</param>
    /// <returns>This definition.</returns>
    public WitServiceDefinition<T> Method(string line, Func<T, WitServerCall, ValueTask> run)
    {
        Methods.Add((line, run));
        return this;
    }

    /// <summary>Adds an event.</summary>
    /// <param name="subscribe">Subscribes to it, and gives back what ends that.</param>
    /// <returns>This definition.</returns>
    public WitServiceDefinition<T> Event(Func<T, WitEventRaiser, Action> subscribe)
    {
        Events.Add(subscribe);
        return this;
    }
}
