import packageJson from '../package.json' with { type: 'json' }

/** Version of this service. */
export const version: string = packageJson.version
