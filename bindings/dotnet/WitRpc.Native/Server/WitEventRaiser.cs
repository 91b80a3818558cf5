using System.Buffers;
using System.ComponentModel;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>Raises the events of one service to all clients that are connected and authorised. For generated code.</summary>
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
            var writer = new WitEventWriter(server.Codec);
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
        NativeBytes* arguments = stackalloc NativeBytes[Math.Max(1, writer.Ends.Count)];
        fixed (byte* data = writer.Bytes.WrittenSpan)
        {
            int start = 0;
            for (int i = 0; i < writer.Ends.Count; i++)
            {
                arguments[i] = new NativeBytes { Data = data + start, Size = (nuint)(writer.Ends[i] - start) };
                start = writer.Ends[i];
            }
            int status = NativeMethods.witrpc_server_raise_encoded(server.Handle, contract, line, arguments, (nuint)writer.Ends.Count, out nint error);
            WitRpcException.ThrowIfFailed(status, error);
        }
    }
}

/// <summary>The arguments of an event that is raised.</summary>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitEventWriter
{
    private readonly WitCodec codec;

    internal WitEventWriter(WitCodec codec) => this.codec = codec;

    internal ArrayBufferWriter<byte> Bytes { get; } = new();

    internal List<int> Ends { get; } = [];

    /// <summary>Adds the next argument.</summary>
    /// <typeparam name="T">Its declared type.</typeparam>
    /// <param name="value">The value.</param>
    /// <returns>This writer.</returns>
    public WitEventWriter With<T>(T value)
    {
        if (value is not null)
        {
            codec.Write(Bytes, value);
        }
        Ends.Add(Bytes.WrittenCount);
        return this;
    }

    /// <summary>Adds a null.</summary>
    /// <returns>This writer.</returns>
    public WitEventWriter WithNull()
    {
        Ends.Add(Bytes.WrittenCount);
        return this;
    }

    /// <summary>Adds a nullable value as .NET's servers do: by the type of the value.</summary>
    /// <typeparam name="T">The type of the value.</typeparam>
    /// <param name="value">The value.</param>
    /// <returns>This writer.</returns>
    public WitEventWriter WithNullable<T>(T? value) where T : struct => value is { } v ? With(v) : WithNull();
}
