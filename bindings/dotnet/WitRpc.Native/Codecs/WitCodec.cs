using System.Buffers;
using System.ComponentModel;

namespace WitRpc.Native;

/// <summary>
/// How arguments, results and event arguments become bytes. Both ends must be set alike: it is not negotiated. Instances are
/// used by many threads at once.
/// </summary>
public abstract class WitCodec
{
    /// <summary>The number by which the native library knows the format (<c>witrpc_codec</c>).</summary>
    [EditorBrowsable(EditorBrowsableState.Never)]
    public abstract int NativeNumber { get; }

    /// <summary>For messages: where they are set apart, both ends find out by a value that can't be read.</summary>
    internal string Name => NativeNumber switch
    {
        0 => "JSON",
        1 => "MemoryPack",
        2 => "MessagePack",
        3 => "protobuf-net",
        _ => "Google.Protobuf",
    };

    /// <summary>System.Text.Json, for codecs that stand on it.</summary>
    /// <param name="resolver">Knows the types: needed in AOT programs for all but scalars.</param>
    /// <returns>The codec.</returns>
    public static WitCodec Json(System.Text.Json.Serialization.Metadata.IJsonTypeInfoResolver? resolver = null) => new JsonCodec(resolver);

    /// <summary>Encodes a value by its declared type. Never called with null: that is an empty blob for every codec.</summary>
    /// <typeparam name="T">The declared type.</typeparam>
    /// <param name="output">Where the bytes go.</param>
    /// <param name="value">The value.</param>
    public abstract void Write<T>(IBufferWriter<byte> output, T value);

    /// <summary>Decodes a value. Never called with no bytes: that is null, or the type's default.</summary>
    /// <typeparam name="T">The declared type.</typeparam>
    /// <param name="bytes">The blob; valid until this method returns.</param>
    /// <returns>The value.</returns>
    public abstract T? Read<T>(ReadOnlySpan<byte> bytes);
}
