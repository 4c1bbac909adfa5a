/* Stands in for libnvidia-ml.so.1. What it answers stands in the environment:
 *   STUB_INIT error code of nvmlInit         STUB_COUNT number of GPUs        STUB_NAME product name
 *   STUB_LOST index of a lost GPU            STUB_HANG seconds nvmlInit hangs  STUB_USED bytes in use
 *   STUB_PID pid of a process, 0 = none      STUB_FABRIC fabric state          STUB_MIG_PENDING, STUB_REMAP_PENDING
 *   STUB_ABORT index of a GPU at which the library ends the process           STUB_REFUSED 1 = memory and processes are not allowed
 *   STUB_OLD 1 = memory v2 and fabric v3 are too new     STUB_DRIVER, STUB_CUDA versions */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { u64 total, free, used; } memory1;
typedef struct { u32 version; u64 total, reserved, free, used; } memory2;
typedef struct { u32 pid; u64 used; u32 gi, ci; } process;
typedef struct { u32 version; unsigned char cluster[16]; int status; u32 clique; unsigned char state; u32 mask; } fabric2;

static long number(const char *name, long other) { const char *v = getenv(name); return v ? atol(v) : other; }
static const char *word(const char *name, const char *other) { const char *v = getenv(name); return v ? v : other; }
static long index_of(void *h) { return (long)h - 1; }

int nvmlInitWithFlags(u32 f) { if (number("STUB_HANG", 0)) sleep((u32)number("STUB_HANG", 0)); return (int)number("STUB_INIT", 0); }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { static char t[40]; snprintf(t, sizeof t, "stub error %d", code); return t; }
int nvmlSystemGetDriverVersion(char *b, u32 n) { snprintf(b, n, "%s", word("STUB_DRIVER", "580.105.08")); return 0; }
int nvmlSystemGetNVMLVersion(char *b, u32 n) { snprintf(b, n, "13.%s", word("STUB_DRIVER", "580.105.08")); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = (int)number("STUB_CUDA", 13000); return 0; }
int nvmlSystemGetProcessName(u32 pid, char *b, u32 n) { snprintf(b, n, "/usr/bin/python3"); return 0; }
int nvmlDeviceGetCount_v2(u32 *n) { *n = (u32)number("STUB_COUNT", 8); return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **h) { if ((long)i == number("STUB_ABORT", -1)) abort(); if ((long)i == number("STUB_LOST", -1)) return 15; *h = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetName(void *h, char *b, u32 n) { snprintf(b, n, "%s", word("STUB_NAME", "NVIDIA B300 SXM6 AC")); return 0; }
int nvmlDeviceGetUUID(void *h, char *b, u32 n) { snprintf(b, n, "GPU-0000000%ld", index_of(h)); return 0; }
int nvmlDeviceGetVbiosVersion(void *h, char *b, u32 n) { snprintf(b, n, "97.10"); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, pci *p) { memset(p, 0, sizeof *p); snprintf(p->bus_id, 32, "00000000:%02lX:00.0", index_of(h) + 5); return 0; }
int nvmlDeviceGetMinorNumber(void *h, u32 *m) { *m = (u32)index_of(h); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 10; *b = 3; return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory1 *m) { if (number("STUB_REFUSED", 0)) return 4; m->total = 288ULL << 30; m->used = (u64)number("STUB_USED", 0); m->free = m->total - m->used; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *h, memory2 *m) {
  if (number("STUB_OLD", 0)) return 13;
  if (number("STUB_REFUSED", 0)) return 4;
  m->total = 288ULL << 30; m->reserved = 1ULL << 30; m->used = (u64)number("STUB_USED", 0); m->free = m->total - m->used - m->reserved; return 0; }
int nvmlDeviceGetEccMode(void *h, u32 *c, u32 *p) { *c = *p = 1; return 0; }
int nvmlDeviceGetTotalEccErrors(void *h, int t, int c, u64 *n) { *n = 0; return 0; }
int nvmlDeviceGetRemappedRows(void *h, u32 *c, u32 *u, u32 *p, u32 *f) { *c = *u = *f = 0; *p = (u32)number("STUB_REMAP_PENDING", 0); return 0; }
int nvmlDeviceGetNvLinkState(void *h, u32 link, u32 *on) { if (link >= 18) return 2; *on = 1; return 0; }
int nvmlDeviceGetGpuFabricInfoV(void *h, fabric2 *f) {
  if (number("STUB_OLD", 0) && (f->version >> 24) != 2) return 25;
  memset(f->cluster, 7, 16); f->status = 0; f->clique = 5; f->state = (unsigned char)number("STUB_FABRIC", 3); return 0; }
int nvmlDeviceGetMigMode(void *h, u32 *c, u32 *p) { *c = 0; *p = (u32)number("STUB_MIG_PENDING", 0); return 0; }
int nvmlDeviceGetComputeMode(void *h, int *m) { *m = 0; return 0; }
int nvmlDeviceGetPersistenceMode(void *h, int *m) { *m = 1; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *r) { *r = 1; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, u32 *v) { *v = 1; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, u32 *v) { *v = 16; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, u32 *v) { *v = 6; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, u32 *v) { *v = 16; return 0; }
int nvmlDeviceGetPcieReplayCounter(void *h, u32 *v) { return 3; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, process *p) {
  u32 have = number("STUB_PID", 0) ? 1 : 0;
  if (*n < have) { *n = have; return 7; }
  if (have) { p[0].pid = (u32)number("STUB_PID", 0); p[0].used = (u64)number("STUB_USED", 0); p[0].gi = p[0].ci = 0; }
  *n = have; return 0; }
