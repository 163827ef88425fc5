/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter server: tables that servers keep, workers pull from and push to. See tutti_ps(7).
 *
 * A table is split over all servers. A pull reads the servers' memory and runs nothing there; a
 * push is applied by its server's thread with the table's update rule. How far workers may run
 * apart is one number, the staleness.
 */
#ifndef TUTTI_PS_H
#define TUTTI_PS_H

#include <tutti/coll.h>

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct tutti_ps;
struct tutti_ps_table;

enum tutti_ps_role {
	TUTTI_PS_WORKER = 1,
	TUTTI_PS_SERVER = 2,
	TUTTI_PS_BOTH = 3,
	TUTTI_PS_LEAVE = 4 /* tutti_ps_resize only: neither from now on */
};

#define TUTTI_PS_ASYNC (-1)

struct tutti_ps_config {
	size_t size; /* sizeof(struct tutti_ps_config) */
	int role;    /* of this rank: enum tutti_ps_role; 0: both */
	int workers; /* how many there must be; 0: as many as say so */
	int servers;
	int staleness; /* 0: BSP; s: at most s clocks apart (SSP); TUTTI_PS_ASYNC: no bound */
	int copies;    /* servers that keep each part of a table, at most 4; 0: one */
	int weight; /* of this rank as a server: how much it keeps beside the others, at most 65535;
		       0: 1 */
};

/**
 * tutti_ps_open - make servers and workers of the ranks of comm. Collective over comm; if it
 * fails, it does on all ranks. config NULL: every rank is both, staleness 0.
 */
int tutti_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config,
		  struct tutti_ps **ps);

/**
 * tutti_ps_close - collective. Returns when every worker has called it, however long that takes;
 * servers serve until then. -EBUSY, with nothing freed, while a request has not been waited for.
 */
int tutti_ps_close(struct tutti_ps *ps);

/**
 * tutti_ps_resize - go on with the ranks of comm: those of ps that live, and new ones, whose ps
 * is NULL. Collective over comm. config says the roles and copies from now on. Tables, the state
 * of their rules and the clocks move to where they belong then. *newps takes the place of ps,
 * which is gone, with its tables; NULL for who leaves. On failure ps goes on.
 */
int tutti_ps_resize(struct tutti_ps *ps, struct tutti_comm *comm,
		    const struct tutti_ps_config *config, struct tutti_ps **newps);

/* What a push does to a value. r: rate; the state of the rules is kept in the table. */
enum tutti_ps_rule {
	TUTTI_PS_SUM = 0, /* x += u */
	TUTTI_PS_ASSIGN,  /* x = u */
	TUTTI_PS_SGD,	  /* x -= r (u + weight_decay x); this and the following: floats only */
	TUTTI_PS_MOMENTUM,
	TUTTI_PS_NESTEROV,
	TUTTI_PS_ADAGRAD,
	TUTTI_PS_RMSPROP,
	TUTTI_PS_ADAM,
	TUTTI_PS_ADAMW,
	TUTTI_PS_CALLBACK, /* options.update */
	TUTTI_PS_NUM_RULES
};

/* Staleness 0 only: what becomes of the pushes of all workers within a clock. */
enum tutti_ps_combine {
	TUTTI_PS_EACH = 0,     /* applied one after the other, in the workers' rank order */
	TUTTI_PS_COMBINE_SUM,  /* added in that order, then applied once */
	TUTTI_PS_COMBINE_MEAN, /* added, divided by the number of workers, applied once */
	TUTTI_PS_NUM_COMBINES
};

/* What a value is before the first push. */
enum tutti_ps_init {
	TUTTI_PS_UNSET = 0, /* nothing: a dense table needs tutti_ps_set, a row is unknown until it
			       is pushed */
	TUTTI_PS_ZERO,
	TUTTI_PS_CONSTANT, /* init_a */
	TUTTI_PS_UNIFORM,  /* in [init_a, init_b), from seed, the same wherever it is stored */
	TUTTI_PS_NORMAL,   /* mean init_a, standard deviation init_b, likewise */
	TUTTI_PS_FILL,	   /* options.fill */
	TUTTI_PS_NUM_INITS
};

/* Called by the server's thread with count elements, at most a block; must not call tutti. */
typedef void tutti_ps_update_fn(void *value, const void *update, size_t count,
				enum tutti_datatype datatype, void *arg);
/* first: of a dense table the index of the first element, of a row table the key. */
typedef void tutti_ps_fill_fn(void *value, uint64_t first, size_t count,
			      enum tutti_datatype datatype, void *arg);

/* All ranks give the same, pointers apart. Zero always means: default, given in brackets. */
struct tutti_ps_options {
	size_t size;	     /* sizeof(struct tutti_ps_options) */
	int rule;	     /* enum tutti_ps_rule */
	int combine;	     /* enum tutti_ps_combine */
	int init;	     /* enum tutti_ps_init */
	double rate;	     /* [0.01] */
	double momentum;     /* [0.9] */
	double beta1, beta2; /* [0.9, 0.999; RMSProp's decay is beta2, 0.99] */
	double epsilon;	     /* [1e-8; Adagrad 1e-10] */
	double weight_decay; /* [0] */
	double init_a, init_b;
	uint64_t seed;
	tutti_ps_update_fn *update;
	tutti_ps_fill_fn *fill;
	void *arg;    /* of both */
	size_t block; /* bytes that are published together, at most 256 KiB [256 KiB; rows 4 KiB] */
	int softsync; /* n: the mean of every workers / n updates is applied; no bound only [each
			 is] */
	int staleness_aware; /* 1: an update computed tau versions ago is divided by tau; not BSP */
	int essp; /* 1: servers send workers what they have pulled before, when it changes */
	int n_fetch, n_push; /* Downpour: clocks from one fetch, one push to the next [1, 1] */
	int threads;   /* of a server that apply a push together, without locks, at most 64 [1] */
	double budget; /* managed bandwidth: a worker's pushes between clocks, bytes a second [no
			  limit] */
};

/**
 * tutti_ps_dense - a table of count elements. Collective. options NULL: sums, unset. After
 * tutti_ps_resize: the table of this name that there was, if it is the same; this is how new ranks
 * get it, and its functions.
 */
int tutti_ps_dense(struct tutti_ps *ps, const char *name, size_t count,
		   enum tutti_datatype datatype, const struct tutti_ps_options *options,
		   struct tutti_ps_table **table);

/**
 * tutti_ps_rows - a table of rows of width elements, found by 64-bit keys, at most rows of them
 * in all. A row comes to be when it is first pulled or pushed. Collective.
 */
int tutti_ps_rows(struct tutti_ps *ps, const char *name, size_t width, uint64_t rows,
		  enum tutti_datatype datatype, const struct tutti_ps_options *options,
		  struct tutti_ps_table **table);

/** tutti_ps_find - the table of this name; -ENOENT: there is none. Local. */
int tutti_ps_find(struct tutti_ps *ps, const char *name, struct tutti_ps_table **table);

/**
 * tutti_ps_load - bytes of values placed on server index (0 to servers - 1), of all tables.
 * Local.
 */
int tutti_ps_load(struct tutti_ps *ps, int index, uint64_t *bytes);

/**
 * tutti_ps_set - give a dense table its count values; by one worker. Visible to all when it
 * returns.
 */
int tutti_ps_set(struct tutti_ps_table *table, const void *values, size_t count,
		 enum tutti_datatype datatype);

/*
 * Workers only. Elements offset to offset + count of a dense table. A push is complete when buf
 * may be reused; it counts for the worker's current clock. i forms: requests, see tutti_wait.
 */
int tutti_ps_pull(struct tutti_ps_table *table, void *buf, size_t offset, size_t count,
		  enum tutti_datatype datatype);
int tutti_ps_push(struct tutti_ps_table *table, const void *buf, size_t offset, size_t count,
		  enum tutti_datatype datatype);
/** tutti_ps_push_pull - the push, then a pull of the same elements. */
int tutti_ps_push_pull(struct tutti_ps_table *table, const void *update, void *values,
		       size_t offset, size_t count, enum tutti_datatype datatype);
int tutti_ps_ipull(struct tutti_ps_table *table, void *buf, size_t offset, size_t count,
		   enum tutti_datatype datatype, struct tutti_request **request);
int tutti_ps_ipush(struct tutti_ps_table *table, const void *buf, size_t offset, size_t count,
		   enum tutti_datatype datatype, struct tutti_request **request);

/* n rows, row i of buf is that of keys[i]. keys and buf must stay until a request is done. */
int tutti_ps_pull_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n, void *buf,
		       enum tutti_datatype datatype);
int tutti_ps_push_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n,
		       const void *buf, enum tutti_datatype datatype);
int tutti_ps_ipull_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n, void *buf,
			enum tutti_datatype datatype, struct tutti_request **request);
int tutti_ps_ipush_rows(struct tutti_ps_table *table, const uint64_t *keys, size_t n,
			const void *buf, enum tutti_datatype datatype,
			struct tutti_request **request);

/**
 * tutti_ps_clock - this worker's clock rises by one. Returns when the slowest worker is at most
 * staleness clocks behind.
 */
int tutti_ps_clock(struct tutti_ps *ps);
int tutti_ps_iclock(struct tutti_ps *ps, struct tutti_request **request);
/** tutti_ps_clock_to - the clock becomes clock, which must not be less than it is. */
int tutti_ps_clock_to(struct tutti_ps *ps, uint64_t clock);

/* How old the last pull of a table was that completed. */
struct tutti_ps_read {
	size_t size;	    /* sizeof(struct tutti_ps_read) */
	uint64_t clock;	    /* of the worker */
	uint64_t min_clock; /* all updates of clocks before this one were in it */
	uint64_t age;	    /* clock - min_clock, or 0 */
	uint64_t version;   /* the oldest publication that was read */
	uint64_t retries;   /* reads done again as the servers had written meanwhile, so far */
	double tau; /* versions between what was pulled and what it was pushed to, on average so
		     * far: of blocks; of rows with staleness_aware */
};

int tutti_ps_last_read(struct tutti_ps_table *table, struct tutti_ps_read *read);

/*
 * Collective over the workers, between clocks; all give the same path, which servers and workers
 * must reach. Tables, the state of their rules and the clocks, as one safetensors file.
 */
/** tutti_ps_save - write path, as a whole or not at all. */
int tutti_ps_save(struct tutti_ps *ps, const char *path);
/**
 * tutti_ps_restore - what path has becomes the values of the tables, which have been made like
 * those that were saved, on as many servers as there are now. On failure they are as they were.
 */
int tutti_ps_restore(struct tutti_ps *ps, const char *path);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
