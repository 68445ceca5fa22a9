/** An endpoint of a Service, as the API server has it. */
export interface Endpoint {
  readonly pod: string;
  readonly node: string;
  readonly addresses: readonly string[];
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
}

interface Condition {
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
}

/** The fields that are read from `kubectl get endpointslices -o json`. */
export interface EndpointSliceList {
  readonly items: readonly {
    readonly endpoints?: readonly {
      readonly addresses: readonly string[];
      readonly conditions?: Condition;
      readonly nodeName?: string;
      readonly targetRef?: { readonly name?: string };
    }[];
  }[];
}

export function endpointsOf({ items }: EndpointSliceList): readonly Endpoint[] {
  return items
    .flatMap(({ endpoints }) => endpoints ?? [])
    .map(({ addresses, conditions, nodeName, targetRef }) => ({
      pod: targetRef?.name ?? '',
      node: nodeName ?? '',
      addresses,
      ready: conditions?.ready ?? true,
      serving: conditions?.serving ?? true,
      terminating: conditions?.terminating ?? false,
    }));
}
