using System.Collections.Generic;
using System.Collections.Immutable;
using System.Linq;
using System.Text;
using System.Threading;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Text;

namespace WitRpc.Native.Generators;

/// <summary>
/// Finds the interfaces that a program uses as contracts (type arguments of generic methods of WitRpc.Native, and interfaces
/// marked with [WitContract]) and has their code made. Decides nothing about that code.
/// </summary>
[Generator(LanguageNames.CSharp)]
public sealed class ContractGenerator : IIncrementalGenerator
{
    /// <summary>The assemblies whose generic methods take contracts.</summary>
    private static readonly HashSet<string> Libraries = ["WitRpc.Native", "WitRpc.Native.DependencyInjection"];

    private const string Attribute = "WitRpc.Native.WitContractAttribute";

    /// <inheritdoc/>
    public void Initialize(IncrementalGeneratorInitializationContext context)
    {
        IncrementalValuesProvider<Made?> called = context.SyntaxProvider.CreateSyntaxProvider(
            static (node, _) => node is InvocationExpressionSyntax,
            static (c, cancel) => FromCall(c, cancel));
        IncrementalValuesProvider<Made?> marked = context.SyntaxProvider.ForAttributeWithMetadataName(
            Attribute,
            static (node, _) => node is InterfaceDeclarationSyntax,
            static (c, cancel) => Make((INamedTypeSymbol)c.TargetSymbol, c.SemanticModel.Compilation, c.TargetNode.GetLocation()));
        IncrementalValueProvider<ImmutableArray<Made?>> all = called.Collect().Combine(marked.Collect()).Select(static (both, _) => both.Left.AddRange(both.Right));
        context.RegisterSourceOutput(all, static (output, made) => Write(output, made));
    }

    private static Made? FromCall(GeneratorSyntaxContext context, CancellationToken cancel)
    {
        var call = (InvocationExpressionSyntax)context.Node;
        if (context.SemanticModel.GetSymbolInfo(call, cancel).Symbol is not IMethodSymbol { IsGenericMethod: true, TypeArguments.Length: 1 } method
            || method.ContainingAssembly?.Name is not { } assembly
            || !Libraries.Contains(assembly)
            || !method.TypeParameters[0].HasReferenceTypeConstraint)
        {
            return null;
        }
        if (method.TypeArguments[0] is INamedTypeSymbol { TypeKind: TypeKind.Class } type)
        {
            string all = string.Join(", ", type.AllInterfaces.Select(i => i.ToDisplayString()));
            string hint = all.Length == 0 ? "it implements none" : "it implements " + all;
            return new Made(type.ToDisplayString(), "", [new Problem("WITRPC004", $"{type.ToDisplayString()} is no interface: name the one that is called or served, as in {method.Name}<IEcho>(…); {hint}", call.GetLocation())]);
        }
        if (method.TypeArguments[0] is not INamedTypeSymbol { TypeKind: TypeKind.Interface } contract)
        {
            return null;
        }
        return Make(contract, context.SemanticModel.Compilation, call.GetLocation());
    }

    private static Made? Make(INamedTypeSymbol contract, Compilation compilation, Location place)
    {
        if (contract.TypeArguments.Any(t => t.TypeKind == TypeKind.TypeParameter) || contract.IsUnboundGenericType || HasTypeParameters(contract))
        {
            return null; // known where it is used with real types
        }
        var problems = new List<Problem>();
        if (!compilation.IsSymbolAccessibleWithin(contract, compilation.Assembly))
        {
            problems.Add(new Problem("WITRPC001", $"{contract.ToDisplayString()} can't be reached from generated code: make it internal or public", place));
            return new Made(contract.ToDisplayString(), "", problems);
        }
        var writer = new ContractWriter(contract, place);
        string source = writer.Write();
        return new Made(contract.ToDisplayString(SymbolDisplayFormat.FullyQualifiedFormat), source, writer.Problems);
    }

    private static bool HasTypeParameters(ITypeSymbol type) => type switch
    {
        ITypeParameterSymbol => true,
        IArrayTypeSymbol array => HasTypeParameters(array.ElementType),
        INamedTypeSymbol named => named.TypeArguments.Any(HasTypeParameters) || (named.ContainingType is { } outer && HasTypeParameters(outer)),
        _ => false,
    };

    private static void Write(SourceProductionContext output, ImmutableArray<Made?> all)
    {
        var seen = new HashSet<string>();
        foreach (Made made in all.OfType<Made>())
        {
            if (!seen.Add(made.Name))
            {
                continue;
            }
            foreach (Problem problem in made.Problems)
            {
                var descriptor = new DiagnosticDescriptor(problem.Id, "This can't be called over WitRPC", "{0}", "WitRpc", DiagnosticSeverity.Warning, true);
                output.ReportDiagnostic(Diagnostic.Create(descriptor, problem.Place, problem.Text));
            }
            if (made.Source.Length > 0)
            {
                output.AddSource($"{FileName(made.Name)}.g.cs", SourceText.From(made.Source, Encoding.UTF8));
            }
        }
    }

    private static string FileName(string name) => new([.. name.Replace("global::", "").Select(c => char.IsLetterOrDigit(c) || c == '.' ? c : '_')]);

    /// <summary>What was made of an interface. Equal if name and code are, so that unchanged ones are not written again.</summary>
    private sealed class Made(string name, string source, List<Problem> problems) : System.IEquatable<Made>
    {
        public string Name { get; } = name;

        public string Source { get; } = source;

        public List<Problem> Problems { get; } = problems;

        public bool Equals(Made? other) => other is not null && Name == other.Name && Source == other.Source && Problems.Count == other.Problems.Count;

        public override bool Equals(object? obj) => Equals(obj as Made);

        public override int GetHashCode() => Name.GetHashCode() ^ Source.GetHashCode();
    }
}

/// <summary>A member that no code can be made for.</summary>
internal sealed class Problem(string id, string text, Location place)
{
    public string Id { get; } = id;

    public string Text { get; } = text;

    public Location Place { get; } = place;
}
