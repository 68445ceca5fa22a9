import { errorText } from '../base/text/error-text.ts';
import type { KernelAnswers } from '../daemon/questions/kernel-answers.ts';
import { QuestionError } from '../daemon/questions/question-error.ts';
import { NoDaemonError } from './ask.ts';
import { UsageError } from './usage-error.ts';

/** Asks the daemon or, if none runs, reads the kernel of this node. Throws a UsageError if neither is possible. */
export async function askOrRead<T>(asked: () => Promise<T>, read: (answers: KernelAnswers) => Promise<T>): Promise<T> {
  try {
    return await asked();
  } catch (error) {
    if (!(error instanceof NoDaemonError)) throw error;
    // Load the code that reads the kernel only here.
    const { readKernel } = await import('../daemon/questions/read-kernel.ts');
    try {
      return await readKernel(read);
    } catch (failure) {
      if (failure instanceof UsageError) throw failure;
      if (failure instanceof QuestionError && failure.status === 400) throw new UsageError(failure.message);
      throw new UsageError(`${error.message}, and the kernel cannot be read: ${errorText(failure)}`);
    }
  }
}
