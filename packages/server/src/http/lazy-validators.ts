import { createRequire } from 'node:module'
import type { BuildCompilerFromPool } from '@fastify/ajv-compiler'
import type { FastifySchemaCompiler } from 'fastify'

const require = createRequire(import.meta.url)

/** One for the process: services in it, as those of tests are, share what Ajv has compiled. */
let pool: BuildCompilerFromPool | undefined

type Validate = ReturnType<FastifySchemaCompiler<unknown>>

/**
 * Validators that are compiled by the first request that needs them. Compiling all of them takes 100 ms of every start,
 * and Ajv with what it compiled 20 MiB.
 */
export const buildLazyValidators: BuildCompilerFromPool = (schemas, options) => {
  let compile: FastifySchemaCompiler<unknown> | undefined
  const compileLate: FastifySchemaCompiler<unknown> = (route) => {
    let validate: Validate | undefined
    const validateLate: Validate = (value) => {
      pool ??= require('@fastify/ajv-compiler')() as BuildCompilerFromPool
      compile ??= pool(schemas, options) as unknown as FastifySchemaCompiler<unknown>
      validate ??= compile(route)
      const isValid = validate(value)
      validateLate.errors = validate.errors
      return isValid
    }
    return validateLate
  }
  return compileLate as unknown as ReturnType<BuildCompilerFromPool>
}
