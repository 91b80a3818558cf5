using System.Buffers;
using MessagePack;

namespace WitRpc.Native;

/// <summary>MessagePack, LZ4-compressed in one block once a value's encoding reaches 64 bytes, as WitRPC does.</summary>
internal sealed class MessagePackCodec : WitCodec
{
    private static readonly MessagePackSerializerOptions Options = MessagePackSerializerOptions.Standard.WithCompression(MessagePackCompression.Lz4Block);

    public override int NativeNumber => 2;

    public override void Write<T>(IBufferWriter<byte> output, T value) => MessagePackSerializer.Serialize(output, value, Options);

    public override T? Read<T>(ReadOnlySpan<byte> bytes) where T : default => MessagePackSerializer.Deserialize<T>(bytes.ToArray(), Options);
}

/// <summary>Chooses MessagePack for clients and servers.</summary>
public static class WitMessagePackExtensions
{
    private static readonly MessagePackCodec Codec = new();

    /// <summary>Arguments and results travel as MessagePack. The server must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <returns>The same.</returns>
    public static WitClientBuilderOptions WithMessagePack(this WitClientBuilderOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(Codec);
    }

    /// <summary>Arguments and results travel as MessagePack. Clients must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <returns>The same.</returns>
    public static WitServerBuilderOptions WithMessagePack(this WitServerBuilderOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(Codec);
    }
}
