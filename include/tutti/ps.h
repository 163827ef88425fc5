/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameter server: servers keep tables, workers pull from and push to them. See tutti_ps(7).
 *
 * A table is split over all servers. A pull reads the servers' memory and runs nothing there; the
 * server's thread applies a push with the table's update rule. One number, the staleness, bounds
 * how far workers may be apart.
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
	int workers; /* expected number of workers; 0: any */
	int servers;
	int staleness; /* 0: BSP; s: at most s clocks apart (SSP); TUTTI_PS_ASYNC: no bound */
	int copies;    /* replicas of each part of a table, this many servers keep it, at most 4; 0:
			  one */
	int weight; /* of this rank as a server: its relative share of the tables, at most 65535; 0:
		       1 */
	int backup; /* b: in each clock the updates of the first workers - b count, later ones are
		       dropped; staleness 0, one copy, no resize; 0: those of all workers */
	int pad;    /* 0 */
};

/**
 * tutti_ps_open - make a parameter server of the ranks of comm. Collective; on failure all ranks
 * fail. config NULL: every rank is server and worker, staleness 0.
 */
int tutti_ps_open(struct tutti_comm *comm, const struct tutti_ps_config *config,
		  struct tutti_ps **ps);

/**
 * tutti_ps_close - collective. Returns when every live worker has called it; servers serve until
 * then. -EBUSY, with nothing freed, while a request has not been waited for.
 */
int tutti_ps_close(struct tutti_ps *ps);

/**
 * tutti_ps_resize - continue with the ranks of comm: live ranks of ps, and new ranks, which pass
 * ps NULL. Collective over comm. config has the new roles and copies. Tables, the state of their
 * rules and the clocks move to the new servers. *newps replaces ps and its tables, which become
 * invalid; NULL for ranks that leave. On failure ps stays valid.
 */
int tutti_ps_resize(struct tutti_ps *ps, struct tutti_comm *comm,
		    const struct tutti_ps_config *config, struct tutti_ps **newps);

/* How a push changes a value. r: rate; the table keeps the state of the rules. */
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

/* Staleness 0 only: how the pushes of all workers within a clock are applied. */
enum tutti_ps_combine {
	TUTTI_PS_EACH = 0,     /* applied one after the other, in the workers' rank order */
	TUTTI_PS_COMBINE_SUM,  /* added in that order, then applied once */
	TUTTI_PS_COMBINE_MEAN, /* added, divided by the number of workers, applied once */
	TUTTI_PS_NUM_COMBINES
};

/* Values before the first push. */
enum tutti_ps_initial {
	TUTTI_PS_UNSET = 0, /* nothing: a dense table needs tutti_ps_set, a row is unknown until it
			       is pushed */
	TUTTI_PS_ZERO,
	TUTTI_PS_CONSTANT, /* init_a */
	TUTTI_PS_UNIFORM,  /* in [init_a, init_b), from seed, the same wherever it is stored */
	TUTTI_PS_NORMAL,   /* mean init_a, standard deviation init_b, likewise */
	TUTTI_PS_FILL,	   /* options.fill */
	TUTTI_PS_NUM_INITIALS
};

/* Called by the server's thread with count elements, at most a block; must not call tutti. */
typedef void tutti_ps_update_fn(void *value, const void *update, size_t count,
				enum tutti_datatype datatype, void *arg);
/* first: of a dense table the index of the first element, of a row table the key. */
typedef void tutti_ps_fill_fn(void *value, uint64_t first, size_t count,
			      enum tutti_datatype datatype, void *arg);

/* Equal on all ranks except pointers. Zero always means the default, given in brackets. */
struct tutti_ps_options {
	size_t size;	     /* sizeof(struct tutti_ps_options) */
	int rule;	     /* enum tutti_ps_rule */
	int combine;	     /* enum tutti_ps_combine */
	int init;	     /* enum tutti_ps_initial */
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
	int essp; /* 1: servers send workers the changes of blocks that they have pulled */
	int n_fetch, n_push; /* Downpour: clocks from one fetch, one push to the next [1, 1] */
	int threads;   /* of a server that apply a push together, without locks, at most 64 [1] */
	double budget; /* managed bandwidth: a worker's pushes between clocks, bytes a second [no
			  limit] */
	/*
	 * Pushes travel encoded; what the encoding leaves out is held back at the worker and added
	 * to its next push of the same elements. Tables of float32. [pushes are not encoded]
	 */
	struct tutti_codec *codec;
	/*
	 * An element is only pushed once the magnitude of its updates is at least this share of the
	 * value that the worker pulled last; until then they are held back. [0: at once]
	 */
	double significance;
	int flush; /* what is held back is pushed as it is when a worker's clock becomes a multiple
		      of this, and when the worker leaves [only then] */
	/*
	 * fp16, bf16, fp8 or int8: servers publish each block a second time, encoded, which pulls
	 * read, and essp sends, instead. Tables of float32. [pulls read the values themselves]
	 */
	struct tutti_codec *publish;
	int versions; /* slots for whole versions, 2 to 16: see tutti_ps_push_version. Dense tables,
			 without replicas. [0: none] */
	int priority; /* this worker's pushes and pulls of tables with a higher one go first; ranks
			 may give different values [0] */
};

/**
 * tutti_ps_dense - a table of count elements. Collective. options NULL: sums, unset. After
 * tutti_ps_resize it returns the existing table of this name if the arguments match, and gives new
 * ranks its functions.
 */
int tutti_ps_dense(struct tutti_ps *ps, const char *name, size_t count,
		   enum tutti_datatype datatype, const struct tutti_ps_options *options,
		   struct tutti_ps_table **table);

/**
 * tutti_ps_rows - a table of rows of width elements, found by 64-bit keys, at most rows of them in
 * all. The first pull or push creates a row. Collective.
 */
int tutti_ps_rows(struct tutti_ps *ps, const char *name, size_t width, uint64_t rows,
		  enum tutti_datatype datatype, const struct tutti_ps_options *options,
		  struct tutti_ps_table **table);

/** tutti_ps_find - the table of this name, else -ENOENT. Local. */
int tutti_ps_find(struct tutti_ps *ps, const char *name, struct tutti_ps_table **table);

/**
 * tutti_ps_server_bytes - bytes of values on server index (0 to servers - 1), of all tables. Local.
 */
int tutti_ps_server_bytes(struct tutti_ps *ps, int index, uint64_t *bytes);

/**
 * tutti_ps_set - set the first count values of a dense table, by one worker. All workers can pull
 * them when it returns.
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
/**
 * tutti_ps_elastic - elastic averaging (EASGD): with d = alpha (x - value), x -= d and value += d,
 * for each element. Atomic to all pushes, a block at a time. int32, int64, float32 or float64; of
 * integers d is rounded towards 0, so x + value is kept. A table of plain sums, with a staleness
 * other than 0. alpha: 0 to 1.
 */
int tutti_ps_elastic(struct tutti_ps_table *table, void *x, size_t offset, size_t count,
		     enum tutti_datatype datatype, double alpha);
int tutti_ps_ipull(struct tutti_ps_table *table, void *buf, size_t offset, size_t count,
		   enum tutti_datatype datatype, struct tutti_request **request);
int tutti_ps_ipush(struct tutti_ps_table *table, const void *buf, size_t offset, size_t count,
		   enum tutti_datatype datatype, struct tutti_request **request);

/*
 * Whole versions of a dense table with options.versions, which are apart from the values that pulls
 * and pushes are about. Workers only; no server runs anything for them.
 */
/**
 * tutti_ps_push_version - make all count values of the table its newest version, by one worker at a
 * time. Versions are numbered from 1; *version (NULL: not wanted) receives the number.
 */
int tutti_ps_push_version(struct tutti_ps_table *table, const void *values, size_t count,
			  enum tutti_datatype datatype, uint64_t *version);
/**
 * tutti_ps_pull_version - read the newest version, all of it from one call of
 * tutti_ps_push_version, and set *version to its number; nothing is read if *version is that number
 * already (0: whatever there is).
 */
int tutti_ps_pull_version(struct tutti_ps_table *table, void *values, size_t count,
			  enum tutti_datatype datatype, uint64_t *version);

/* n rows; row i of buf belongs to keys[i]. keys and buf must stay valid until a request is done. */
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
/** tutti_ps_clock_to - set the clock, which must not go back. */
int tutti_ps_clock_to(struct tutti_ps *ps, uint64_t clock);

/**
 * tutti_ps_exact - on 1: this worker's pulls of a table with options.publish read the values
 * themselves from now on; 0: the encoded copies again. Local.
 */
int tutti_ps_exact(struct tutti_ps_table *table, int on);

/* The staleness of a table's last complete pull. */
struct tutti_ps_read {
	size_t size;	    /* sizeof(struct tutti_ps_read) */
	uint64_t clock;	    /* of the worker */
	uint64_t min_clock; /* all updates of clocks before this one were in it */
	uint64_t age;	    /* clock - min_clock, or 0 */
	uint64_t version;   /* the oldest publication that was read */
	uint64_t retries;   /* reads repeated because servers had written meanwhile, so far */
	double tau;	    /* versions between a pull and the push computed from it, on average so
			     * far: of blocks; of rows with staleness_aware */
	uint64_t dropped;   /* backup workers: elements of this worker's pushes, to all tables, that
			     * came too late, so far */
};

int tutti_ps_last_read(struct tutti_ps_table *table, struct tutti_ps_read *read);

/* The residuals of a worker's pushes to a table, and the bytes of these pushes. */
struct tutti_ps_held {
	size_t size;	      /* sizeof(struct tutti_ps_held) */
	uint64_t clock;	      /* of the worker */
	uint64_t since;	      /* nothing of the pushes of clocks before this one is held back */
	uint64_t elements;    /* of which something is held back */
	double sum, most;     /* the sum of |e|, and the largest |e|, over these; e: what is held */
	uint64_t plain_bytes; /* of all pushes so far, if they had not been encoded */
	uint64_t sent_bytes;  /* sent for them, flushes included */
};

/** tutti_ps_held - what this worker holds back. Of a table that holds nothing back: zeros. Local.
 */
int tutti_ps_held(struct tutti_ps_table *table, struct tutti_ps_held *held);

/** tutti_ps_flush - push what is held back as it is, in this worker's current clock. */
int tutti_ps_flush(struct tutti_ps_table *table);

/*
 * Collective over the workers, between clocks, with the same path, which all servers and workers
 * can access. One safetensors file has tables, the state of their rules and the clocks.
 */
/** tutti_ps_save - write path, as a whole or not at all. */
int tutti_ps_save(struct tutti_ps *ps, const char *path);
/**
 * tutti_ps_restore - read path into existing tables of the same names, types and rules, on any
 * number of servers. On failure the tables do not change.
 */
int tutti_ps_restore(struct tutti_ps *ps, const char *path);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
