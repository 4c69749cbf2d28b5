//! `#[boxed_async]`: async methods of a trait that is used as an object (`dyn Trait`).
//!
//! Each `async fn` becomes a method that returns a boxed future, as with the crate `async-trait`. What
//! differs are the lifetimes. That crate gives each argument one of its own, and each method the bounds that
//! they outlive the future. The compiler keeps what it has proved of a type (that a future is `Send`) for all
//! methods without such bounds, and proves it again for each method that has some: for a future that holds a
//! connection to a database, some 1,700 types each time, a third of what it takes to compile the stores. So
//! all borrowed arguments share one lifetime here, and no bound is needed.

use proc_macro::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, FnArg, ImplItem, Item, Lifetime, ParenthesizedGenericArguments, Pat, Receiver, ReceiverKind,
    ReturnType, Signature, TraitItem, Type, TypeFnPtr, TypeReference, parse_macro_input, parse_quote,
};

/// Turns each `async fn` of a trait, or of an implementation of one, into a method that returns
/// `Pin<Box<dyn Future<Output = …> + Send + 'call>>`, where all that is borrowed is borrowed for `'call`.
///
/// A future owns its arguments until it ends, as that of an `async fn` does. The trait of a method with a
/// body is `Send` and `Sync`. A method that takes no `self` by reference borrows nothing from it: `Self` is
/// `'static`.
#[proc_macro_attribute]
pub fn boxed_async(_attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as Item);
    match &mut item {
        Item::Trait(item) => {
            for method in &mut item.items {
                if let TraitItem::Fn(method) = method
                    && method.sig.asyncness.is_some()
                {
                    rewrite(&mut method.sig, method.default.as_mut());
                }
            }
        }
        Item::Impl(item) => {
            for method in &mut item.items {
                if let ImplItem::Fn(method) = method
                    && method.sig.asyncness.is_some()
                {
                    rewrite(&mut method.sig, Some(&mut method.block));
                }
            }
        }
        _ => {
            let told = "this belongs to a trait or to an implementation of one";
            return syn::Error::new_spanned(item, told).to_compile_error().into();
        }
    }
    item.into_token_stream().into()
}

fn rewrite(signature: &mut Signature, body: Option<&mut Block>) {
    signature.asyncness = None;
    for argument in &mut signature.inputs {
        OneLifetime.visit_fn_arg_mut(argument);
    }
    OneLifetime.visit_return_type_mut(&mut signature.output);
    let output: Type = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => (**output).clone(),
    };
    let named: Vec<_> = signature.generics.lifetimes().map(|named| named.lifetime.clone()).collect();
    signature.generics.params.insert(0, parse_quote!('call));
    for lifetime in named {
        // The only bounds, of the few methods that name a lifetime: what they borrow outlives the future.
        signature.generics.make_where_clause().predicates.push(parse_quote!(#lifetime: 'call));
    }
    signature.output = parse_quote! {
        -> ::std::pin::Pin<::std::boxed::Box<
            dyn ::std::future::Future<Output = #output> + ::std::marker::Send + 'call
        >>
    };
    if let Some(body) = body {
        let taken = take_arguments(signature);
        let statements = &body.stmts;
        // An async block cannot be told its output. It is that of the first `return` in it, which all others
        // and the last expression are converted to.
        *body = parse_quote! {{
            ::std::boxed::Box::pin(async move {
                if false {
                    return (|| -> #output { ::std::unreachable!() })();
                }
                #taken
                #(#statements)*
            })
        }};
    }
}

/// The statements by which the future takes the arguments: those that are not borrowed live as long as it
/// does, also where it does not use them, and patterns are matched in it.
fn take_arguments(signature: &mut Signature) -> proc_macro2::TokenStream {
    let mut taken = proc_macro2::TokenStream::new();
    for (place, argument) in signature.inputs.iter_mut().enumerate() {
        let FnArg::Typed(argument) = argument else { continue };
        match &*argument.pat {
            Pat::Ident(name) if name.mutability.is_none() => {
                if !matches!(&*argument.ty, Type::Reference(_)) {
                    taken.extend(quote!(let #name = #name;));
                }
            }
            _ => {
                let name = format_ident!("argument_{place}");
                let pattern = std::mem::replace(&mut *argument.pat, parse_quote!(#name));
                taken.extend(quote!(let #pattern = #name;));
            }
        }
    }
    taken
}

/// Writes `'call` where a lifetime was left out.
struct OneLifetime;

impl OneLifetime {
    fn name() -> Lifetime {
        parse_quote!('call)
    }
}

impl VisitMut for OneLifetime {
    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        if let ReceiverKind::Reference(_, lifetime, _) = &mut receiver.kind {
            lifetime.get_or_insert_with(Self::name);
        }
        visit_mut::visit_receiver_mut(self, receiver);
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        reference.lifetime.get_or_insert_with(Self::name);
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = Self::name();
        }
    }

    // `Fn(&str)` and `fn(&str)` are for any lifetime.
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}

    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}
}
