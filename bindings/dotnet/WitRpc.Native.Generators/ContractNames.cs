using System.Collections.Generic;
using System.Linq;
using Microsoft.CodeAnalysis;

namespace WitRpc.Native.Generators;

/// <summary>Names of types: as method lines and contracts write them, and which of them a contract must declare.</summary>
internal static class ContractNames
{
    /// <summary>How C# writes the type, complete and without annotations of references.</summary>
    internal static string CSharp(ITypeSymbol type) => type.WithNullableAnnotation(NullableAnnotation.None).ToDisplayString(Format);

    private static readonly SymbolDisplayFormat Format = SymbolDisplayFormat.FullyQualifiedFormat
        .WithMiscellaneousOptions(SymbolDisplayMiscellaneousOptions.UseSpecialTypes | SymbolDisplayMiscellaneousOptions.EscapeKeywordIdentifiers);

    /// <summary>The full .NET name, by which ids are made: nested types with <c>+</c>, generic ones with their arguments.</summary>
    internal static string Line(ITypeSymbol type)
    {
        switch (type)
        {
            case IArrayTypeSymbol array:
                return Line(array.ElementType) + "[" + new string(',', array.Rank - 1) + "]";
            case IDynamicTypeSymbol:
                return "System.Object";
            case ITypeParameterSymbol parameter:
                return parameter.Name;
            case INamedTypeSymbol { IsTupleType: true, TupleUnderlyingType: { } tuple }:
                return Line(tuple);
            case INamedTypeSymbol named:
                string prefix = named.ContainingType is { } outer ? Line(outer) + "+"
                    : named.ContainingNamespace.IsGlobalNamespace ? "global::" : named.ContainingNamespace.ToDisplayString() + ".";
                string arguments = named.TypeArguments.IsEmpty ? "" : "<" + string.Join(", ", named.TypeArguments.Select(Line)) + ">";
                return prefix + named.Name + arguments;
            default:
                return type.ToDisplayString();
        }
    }

    /// <summary>Collects the types that are not .NET's own, by their definitions, as entries of a contract document.</summary>
    internal static void Declare(ITypeSymbol type, SortedDictionary<string, string> entries)
    {
        switch (type)
        {
            case IArrayTypeSymbol array:
                Declare(array.ElementType, entries);
                break;
            case INamedTypeSymbol named:
                foreach (ITypeSymbol argument in named.TypeArguments)
                {
                    Declare(argument, entries);
                }
                if (!IsFramework(named))
                {
                    INamedTypeSymbol definition = named.OriginalDefinition;
                    string name = Definition(definition);
                    entries[name] = $"{{ \"{Kind(definition)}\": \"{name}\"{Extra(definition)}, \"assembly\": \"{definition.ContainingAssembly.Name}\" }}";
                }
                break;
        }
    }

    private static string Definition(INamedTypeSymbol type)
    {
        string prefix = type.ContainingType is { } outer ? Definition(outer) + "+"
            : type.ContainingNamespace.IsGlobalNamespace ? "" : type.ContainingNamespace.ToDisplayString() + ".";
        return prefix + type.Name + (type.TypeParameters.IsEmpty ? "" : "<" + string.Join(", ", type.TypeParameters.Select(p => p.Name)) + ">");
    }

    private static string Kind(INamedTypeSymbol type) => type.TypeKind switch
    {
        TypeKind.Enum => "enum",
        TypeKind.Struct => "struct",
        TypeKind.Interface => "interface",
        _ => "class",
    };

    private static string Extra(INamedTypeSymbol type)
    {
        if (type.TypeKind != TypeKind.Enum)
        {
            return "";
        }
        string of = type.EnumUnderlyingType is { SpecialType: not SpecialType.System_Int32 } underlying
            ? $", \"of\": \"{underlying.ToDisplayString(SymbolDisplayFormat.MinimallyQualifiedFormat)}\"" : "";
        IEnumerable<string> values = type.GetMembers().OfType<IFieldSymbol>().Where(f => f.HasConstantValue).Select(f => $"\"{f.Name}\": {f.ConstantValue}");
        return $"{of}, \"values\": {{ {string.Join(", ", values)} }}";
    }

    private static bool IsFramework(INamedTypeSymbol type)
    {
        string space = type.ContainingNamespace?.ToDisplayString() ?? "";
        return space == "System" || space.StartsWith("System.", System.StringComparison.Ordinal);
    }
}
