/** Lines for the operator's log. World: `import agent:tool/log@0.1.1;` */
import { write as hostWrite } from 'agent:tool/log@0.1.1';

export function write(level, message, fields = {}) {
  hostWrite(level, String(message), Object.entries(fields).map(([key, value]) => [key, String(value)]));
}

export const debug = (message, fields) => write('debug', message, fields);
export const info = (message, fields) => write('info', message, fields);
export const warn = (message, fields) => write('warn', message, fields);
export const error = (message, fields) => write('error', message, fields);
