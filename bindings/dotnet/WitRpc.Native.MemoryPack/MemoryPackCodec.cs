using System.Buffers;
using MemoryPack;

namespace WitRpc.Native;

/// <summary>
/// MemoryPack, as WitRPC uses it: by the registered formatter of the declared type. A DateTimeOffset is local ticks and offset
/// ticks; its formatter is registered for the whole process, as WitRPC's own package does.
/// </summary>
internal sealed class MemoryPackCodec : WitCodec
{
    static MemoryPackCodec() => MemoryPackFormatterProvider.Register(new DateTimeOffsetFormatter());

    public override int NativeNumber => 1;

    // Not MemoryPackSerializer.Serialize<T>: that copies unmanaged types as they lie in memory, past their formatters.
    public override void Write<T>(IBufferWriter<byte> output, T value)
    {
        using MemoryPackWriterOptionalState state = MemoryPackWriterOptionalStatePool.Rent(MemoryPackSerializerOptions.Default);
        var writer = new MemoryPackWriter<IBufferWriter<byte>>(ref output, state);
        try
        {
            writer.WriteValue(value);
        }
        catch (MemoryPackSerializationException e) when (e.Message.Contains("is not registered", StringComparison.Ordinal))
        {
            throw new MemoryPackSerializationException($"{e.Message} Mark the type with [MemoryPackable], and make it partial.");
        }
        writer.Flush();
    }

    public override T? Read<T>(ReadOnlySpan<byte> bytes) where T : default
    {
        // .NET servers answer a T? as the T that it boxes to, libwitrpc ones as they declare it. The two never have the same length.
        if (Nullables<T>.ReadPlain is { } plain && bytes.Length != Nullables<T>.Size)
        {
            return plain(bytes);
        }
        return ReadDeclared<T>(bytes);
    }

    private static T? ReadDeclared<T>(ReadOnlySpan<byte> bytes)
    {
        using MemoryPackReaderOptionalState state = MemoryPackReaderOptionalStatePool.Rent(MemoryPackSerializerOptions.Default);
        var reader = new MemoryPackReader(bytes, state);
        T? value = default;
        reader.ReadValue(ref value);
        return value;
    }

    private delegate T? Plain<T>(ReadOnlySpan<byte> bytes);

    /// <summary>How a nullable value is read from the form of the value itself; nothing for other types.</summary>
    private static class Nullables<T>
    {
        internal static readonly Type? Underlying = Nullable.GetUnderlyingType(typeof(T));
        internal static readonly int Size = Underlying is null ? 0 : System.Runtime.CompilerServices.Unsafe.SizeOf<T>();
        internal static readonly Plain<T>? ReadPlain = Underlying is null ? null : static bytes => (T?)MemoryPackSerializer.Deserialize(Underlying!, bytes);
    }

    private sealed class DateTimeOffsetFormatter : MemoryPackFormatter<DateTimeOffset>
    {
        public override void Serialize<TBufferWriter>(ref MemoryPackWriter<TBufferWriter> writer, scoped ref DateTimeOffset value) =>
            writer.WriteUnmanaged(value.Ticks, value.Offset.Ticks);

        public override void Deserialize(ref MemoryPackReader reader, scoped ref DateTimeOffset value)
        {
            reader.ReadUnmanaged(out long ticks, out long offset);
            value = new DateTimeOffset(ticks, new TimeSpan(offset));
        }
    }
}

/// <summary>Chooses MemoryPack for clients and servers.</summary>
public static class WitMemoryPackExtensions
{
    private static readonly MemoryPackCodec Codec = new();

    /// <summary>Arguments and results travel as MemoryPack. The server must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <returns>The same.</returns>
    public static WitClientBuilderOptions WithMemoryPack(this WitClientBuilderOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(Codec);
    }

    /// <summary>Arguments and results travel as MemoryPack. Clients must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <returns>The same.</returns>
    public static WitServerBuilderOptions WithMemoryPack(this WitServerBuilderOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(Codec);
    }
}
