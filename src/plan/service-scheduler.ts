import type { ServiceDefinition } from '../model/service-model.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';

/** Returns the scheduler that is in force for a Service: its own one, unless the kernel does not have it. */
export function schedulerOf(
  { requests }: Pick<ServiceDefinition, 'requests'>,
  { missingSchedulers }: Pick<NodeView, 'missingSchedulers'>,
  { scheduler }: Pick<PlanConfig, 'scheduler'>,
): string {
  const asked = requests?.scheduler;
  return asked === undefined || missingSchedulers?.has(asked) === true ? scheduler : asked;
}
