using System.Buffers;
using System.ComponentModel;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>Raises the events of one service, to all clients or to those of a <see cref="WitAudience"/>. For generated code.</summary>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed unsafe class WitEventRaiser
{
    private readonly WitServer server;
    private readonly string contract;

    internal WitEventRaiser(WitServer server, string contract) => (this.server, this.contract) = (server, contract);

    /// <summary>Raises an event. Never blocks; what goes wrong is logged, because the service that raises it can't help it.</summary>
    /// <param name="line">The event's line.</param>
    /// <param name="write">Adds the arguments in order.</param>
    public void Raise(string line, Action<WitEventWriter> write)
    {
        try
        {
            var writer = new WitEventWriter(server, line);
            write(writer);
            Send(line, writer);
        }
        catch (Exception e)
        {
            Log.RaiseFailed(server.Logger, e, line);
        }
    }

    private void Send(string line, WitEventWriter writer)
    {
        int count = writer.Blobs.Count;
        NativeBytes* arguments = stackalloc NativeBytes[Math.Max(1, count)];
        fixed (byte* data = writer.Bytes.WrittenSpan)
        {
            for (int i = 0; i < count; i++)
            {
                arguments[i] = new NativeBytes { Data = data + writer.Blobs[i].Start, Size = (nuint)writer.Blobs[i].Size };
            }
            WitAudience.Send(server, contract, line, arguments, count);
        }
    }
}

/// <summary>The arguments of an event that is raised.</summary>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitEventWriter
{
    private readonly WitServer server;
    private readonly string line;

    internal WitEventWriter(WitServer server, string line) => (this.server, this.line) = (server, line);

    internal ArrayBufferWriter<byte> Bytes { get; } = new();

    internal List<(int Start, int Size)> Blobs { get; } = [];

    /// <summary>
    /// Adds the next argument. What the codec can't write travels as null, as from .NET's servers, and is logged: the clients
    /// learn at least that the event happened, and the service that raised it could not do anything about it.
    /// </summary>
    /// <typeparam name="T">Its declared type.</typeparam>
    /// <param name="value">The value.</param>
    /// <returns>This writer.</returns>
    public WitEventWriter With<T>(T value)
    {
        if (value is null)
        {
            return WithNull();
        }
        int start = Bytes.WrittenCount;
        try
        {
            server.Codec.Write(Bytes, value);
            Blobs.Add((start, Bytes.WrittenCount - start));
        }
        catch (Exception e)
        {
            Log.RaiseFailed(server.Logger, e, $"{line}, argument {Blobs.Count + 1}");
            WithNull();
        }
        return this;
    }

    /// <summary>Adds a null.</summary>
    /// <returns>This writer.</returns>
    public WitEventWriter WithNull()
    {
        Blobs.Add((0, 0));
        return this;
    }

    /// <summary>Adds a nullable value as .NET's servers do: by the type of the value.</summary>
    /// <typeparam name="T">The type of the value.</typeparam>
    /// <param name="value">The value.</param>
    /// <returns>This writer.</returns>
    public WitEventWriter WithNullable<T>(T? value) where T : struct => value is { } v ? With(v) : WithNull();
}
